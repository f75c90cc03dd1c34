"""Links between words, read off attention weights under forced decoding, and their error rate against gold links.

Attention weights show what the model attends to, not why.
L layers, H heads, S source pieces, T target pieces.
"""
