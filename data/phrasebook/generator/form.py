"""A variant of a rule, both sides compiled, with the slots that it needs."""

from generator.english_side import English
from generator.german_side import German
from generator.lexicon import Lexicon
from generator.rules import KINDS, Rule, Variant
from generator.side import Phrase, Shared


class Form:
    """A variant that can be drawn and written; raises PhrasebookError for an impossible token or a
    one-sided label."""

    def __init__(self, rule: Rule, variant: Variant, number: int, lexicon: Lexicon) -> None:
        self.line = variant.line
        self.rule = rule
        self.name = f"{rule.category} {rule.name}.{number}"
        self.names = list(rule.slots)
        shared: Shared = {}, set(), {}
        left = German(rule, lexicon, shared)
        right = English(rule, lexicon, shared)
        try:
            self.write = (
                [left.compile(token) for token in variant.german],
                [right.compile(token) for token in variant.english],
            )
        except (IndexError, KeyError) as error:
            raise variant.line.error(
                "expected features that go together in each {…} of this line and the next."
            ) from error
        for label, token in [*left.label_tokens.items(), *right.label_tokens.items()]:
            if label in shared[0] and label in rule.slots and rule.slots[label].kind not in KINDS:
                raise token.line.error(
                    f"expected another label than '{label}': a phrase has links of its own."
                )
            if (label in left.label_tokens) != (label in right.label_tokens):
                raise token.line.error(
                    f"expected the label or slot '{label}' on the other side too."
                )
        needed = set(shared[1])
        for name in reversed(self.names):  # also the slots that the used ones refer to
            if name in needed:
                needed |= {word.split(".")[0] for word in rule.slots[name].classes} & set(
                    self.names
                )
        self.needed = [
            (index, rule.slots[name]) for index, name in enumerate(self.names) if name in needed
        ]

    def phrase(self, base: int) -> Phrase:
        """A phrase of this form whose slots are not filled yet."""
        return Phrase(self.name, self.names, self.write, base)
