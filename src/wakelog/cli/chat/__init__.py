"""Interactive terminal chat with an agent.

Rules: every user action is an entry in the log, as if another process had made it; everything shown is read from the
log and its journals; no stored text reaches the terminal raw; only the session's name is kept between turns.
Reading order: app (controller), view (display of a session), runner (wake and watch the session), commands, input,
questions. From log to lines: items, transcript (both pure), markdown, drawing, live_area. Terminal: screen, terminal,
graphemes. `chat --pick`: picker, session_list; they are loaded before the chat and do not import it.
"""
