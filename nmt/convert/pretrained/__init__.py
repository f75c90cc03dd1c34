"""A translator of Hugging Face transformers as a run of ours, and back: Marian, M2M-100, NLLB-200,
own exports.

hub.py          what is fetched
files.py        the small files of a folder
families.py     FAMILIES, and what is refused
family.py       what a family is asked for; marian.py, m2m100.py and pegasus.py answer
weights.py      the tensors of safetensors and .bin files
vocabulary.py   the pieces, and the SentencePiece model whose ids are ours
languages.py    the languages of a run
model.py        the options and weights of our Transformer
trim.py         a model without the pieces that some text does not need
new_language.py a language that is added to a multilingual model
folder.py       all of it: read_pretrained, write_back

V vocabulary, D model size. Our first four ids are <pad>, <unk>, <s>, </s>; theirs are permuted. <s>
is the piece that their decoder starts with, so where that is <pad> (Marian) or </s> (M2M-100) its
row is there twice. Everything in such a folder is a stranger's: sizes and types are checked before
they are believed, and nothing in it is run.
"""
