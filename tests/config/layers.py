"""Configurations made of texts, without a file."""

from wakelog.config.layers import Layer, merge_layers
from wakelog.config.parsing import parse_config
from wakelog.config.schema import Source

USER = "/home/me/.config/wakelog/config.toml"
ROOT = "/src/project"


def loaded(user="", *projects, trusted=False, environ=None, options=None, real=None):
    """Return the configuration of the user's text and the texts of a project, from the outermost folder inwards."""
    layers = [Layer(Source(USER, "user"), parse_config(user, USER, home="/home/me"))]
    for number, text in enumerate(projects):
        path = f"{ROOT}{'/sub' * number}/.wakelog.toml"
        source = Source(path, "project", ROOT, trusted=trusted)
        layers.append(Layer(source, parse_config(text, path, "project", home="/home/me")))
    more = {"real": real} if real is not None else {}
    return merge_layers(layers, environ or {}, options or {}, user_file=USER, **more)


def place(made, *path):
    return str(made.place_of(*path))
