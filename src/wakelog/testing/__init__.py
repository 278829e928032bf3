"""What wakelog is tested with, shipped so that yours can be too: a clock that obeys, short words for
making sessions by hand, and the suite that judges a store. Nothing outside tests may import this room.
"""
