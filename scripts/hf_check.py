"""Whether the folder of `nmt export RUN --format hf` computes and translates in transformers as the run does.

python scripts/hf_check.py RUN FOLDER test.de

Both search greedily, without avoiding loops, up to the same length.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

from nmt.data.tokenizer import BOS
from nmt.runs.folders import find_checkpoints
from nmt.runs.run import load

BATCH = 50


def main() -> None:
    """Print the largest difference of logits and cross-attention, and how many translations are the same."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("folder", type=Path)
    parser.add_argument("source", type=Path)
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--count", type=int, default=1000)
    options = parser.parse_args()
    lines = options.source.read_text(encoding="utf-8").splitlines()[: options.count]
    model = AutoModelForSeq2SeqLM.from_pretrained(options.folder, attn_implementation="eager").eval()
    tokenizer = AutoTokenizer.from_pretrained(options.folder)
    limit = model.generation_config.max_length - 2  # without <s> and </s>
    translator = load(find_checkpoints(options.run, options.runs), precision="fp32").translator
    search = {"beam": 1, "avoid_loops": False, "max_length_ratio": 0.0, "max_length_extra": limit}
    ours = list(translator.with_options(decode=replace(translator.decode, **search)).translate(lines))
    theirs: list[str] = []
    with torch.inference_mode():
        for start in range(0, len(lines), BATCH):
            batch = tokenizer(lines[start : start + BATCH], return_tensors="pt", padding=True)
            ids = model.generate(**batch, num_beams=1, max_length=limit + 2)
            theirs += tokenizer.batch_decode(ids, skip_special_tokens=True)
        logits = attention = 0.0
        for line, translation in zip(lines, ours, strict=True):
            source = torch.tensor([tokenizer(line)["input_ids"]])
            target = torch.tensor([[BOS, *translation.ids]])
            decoded = translator.model(source, None, target, weights=True)
            output = model(input_ids=source, decoder_input_ids=target, output_attentions=True)
            logits = max(logits, float((output.logits - translator.model.logits(decoded.hidden)).abs().max()))
            difference = torch.stack(output.cross_attentions, 1) - decoded.weights
            attention = max(attention, float(difference.abs().max()))
    same = sum(each.text == text for each, text in zip(ours, theirs, strict=True))
    ended = sum(len(each.ids) < limit and each.text != text for each, text in zip(ours, theirs, strict=True))
    print(f"{len(lines)} sentences: logits differ by at most {logits:.1e}, cross-attention by {attention:.1e}")
    print(f"{same} greedy translations are the same; of the others {ended} end before the limit of {limit} pieces")


if __name__ == "__main__":
    main()
