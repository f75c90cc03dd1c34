"""What bench.py, bench_peers.py, bench_gpu.py and scale.py share.

machine    the machine, a stopwatch and peak memory; imports neither torch nor nmt, so that other
toolkits can use it tables     medians over rounds and Markdown tables frame      the command line,
fresh processes, rounds in turn, the JSON file corpora    held-out lines of a real corpus; synthetic
corpora of any size training   timed updates of `nmt train` models     a model of nmt measured:
start, training, translating
"""
