"""What happened: entries, their bytes, their chain, their tree. Pure: no clock, file, network or chance.

Read in this order: content, entry, ids, codec, seal, lines, end, tree, tail, proof.
"""
