"""A variant of a rule, both sides compiled, with the slots that it needs."""

from nmt.data.phrasebook.english_side import English
from nmt.data.phrasebook.german_side import German
from nmt.data.phrasebook.lexicon import Lexicon
from nmt.data.phrasebook.rules import KINDS, Rule, Variant
from nmt.data.phrasebook.side import Phrase, Shared


class Form:
    """Ready to be drawn and written; raises UserError for a token that is not possible, or a label on one side alone."""

    def __init__(self, rule: Rule, variant: Variant, number: int, lexicon: Lexicon) -> None:
        self.line, self.rule, self.name, self.names = variant.line, rule, f"{rule.category} {rule.name}.{number}", list(rule.slots)
        shared: Shared = {}, set(), {}
        left, right = German(rule, lexicon, shared), English(rule, lexicon, shared)
        try:
            self.write = [left.compile(one) for one in variant.german], [right.compile(one) for one in variant.english]
        except (IndexError, KeyError) as error:
            raise variant.line.error("expected features that go together in each {…} of this line and the next.") from error
        for label, token in [*left.seen.items(), *right.seen.items()]:
            if label in shared[0] and label in rule.slots and rule.slots[label].kind not in KINDS:
                raise token.line.error(f"expected another label than '{label}': a phrase has links of its own.")
            if (label in left.seen) != (label in right.seen):
                raise token.line.error(f"expected the label or slot '{label}' on the other side too.")
        need = set(shared[1])
        for name in reversed(self.names):  # what the used ones refer to
            if name in need:
                need |= {word.split(".")[0] for word in rule.slots[name].classes} & set(self.names)
        self.needed = [(index, rule.slots[name]) for index, name in enumerate(self.names) if name in need]

    def phrase(self, base: int) -> Phrase:
        """An empty one."""
        return Phrase(self.name, self.names, self.write, base)
