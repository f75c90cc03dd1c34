"""Checks of the rules against the words and against each other, before anything is drawn."""

from generator.lexicon import Lexicon
from generator.rules import KINDS, NUMBERS, Rule, Slot


def check(rules: list[Rule], lexicon: Lexicon) -> None:
    """Raises PhrasebookError for a slot, a restriction or a verb that names what does not exist,
    and for recursion."""
    names: dict[str, set[str]] = {}
    for rule in rules:
        names.setdefault(rule.category, set()).add(rule.name)
    words = (lexicon.heads, lexicon.verbs, lexicon.adjectives, lexicon.words, lexicon.pronouns)
    classes = {name for group in words for entry in group for name in entry.classes}
    for rule in rules:
        above: list[str] = []
        for slot in rule.slots.values():
            check_kind(slot, names)
            check_classes(rule, slot, above, classes)
            check_restrictions(slot, names, classes)
            above.append(slot.name)
    for verb in lexicon.verbs:
        for name in (*verb.subject, *verb.object):
            if name not in classes:
                raise verb.line.error(f"expected classes that some noun has, not '{name}'.")
    check_circles(rules, names)


def check_kind(slot: Slot, names: dict[str, set[str]]) -> None:
    """Raises PhrasebookError unless the slot names a part of speech or a category that has
    rules."""
    if slot.kind not in KINDS and slot.kind not in names:
        raise slot.line.error(
            f"expected one of {', '.join((*KINDS, *sorted(names)))}, not '{slot.kind}'."
        )


def check_classes(rule: Rule, slot: Slot, above: list[str], classes: set[str]) -> None:
    """Raises PhrasebookError unless the slot names classes that some word has, or slots above it in
    the rule."""
    if slot.kind == "adjective" and not (slot.classes and slot.classes[0] in above):
        raise slot.line.error("expected a slot above this one, whose noun the adjective describes.")
    if slot.classes and all(word.startswith("-") for word in slot.classes):
        raise slot.line.error("expected a class that is wanted beside those that are not.")
    for word in slot.classes:
        name, _, part = word.partition(".")
        if name in rule.slots:
            if name not in above:
                raise slot.line.error(f"expected slot '{name}' above this one.")
            if part and (rule.slots[name].kind != "verb" or part not in ("subject", "object")):
                raise slot.line.error(
                    f"expected the subject or object of a verb slot, not '{word}'."
                )
            continue
        if word.startswith("-") and "+" in word:
            raise slot.line.error(f"expected one class behind the minus, not '{word}'.")
        for part in word.lstrip("-").split("+"):
            if part not in classes and word != "$":
                raise slot.line.error(f"expected a class that some word has, not '{part}'.")
    if "$" in slot.classes and rule.category == "sentence":
        raise slot.line.error("expected classes instead of $: there is no rule around a sentence.")


def check_restrictions(slot: Slot, names: dict[str, set[str]], classes: set[str]) -> None:
    """Raises PhrasebookError unless the brackets hold numbers, rules of the category or a noun's
    further classes."""
    possible = names.get(slot.kind, classes if slot.kind in ("noun", "pronoun") else set())
    for word in slot.only:
        if word not in NUMBERS and word not in possible:
            some = ", ".join((*NUMBERS, *sorted(names.get(slot.kind, ()))))
            raise slot.line.error(f"expected one of {some} in the brackets, not '{word}'.")


def check_circles(rules: list[Rule], names: dict[str, set[str]]) -> None:
    """Raises PhrasebookError for a category that contains itself, so that drawing it would never
    end."""
    inside: dict[str, set[str]] = {name: set() for name in names}
    for rule in rules:
        inside[rule.category] |= {slot.kind for slot in rule.slots.values()} & set(names)
    for rule in rules:
        reached = set()
        pending = list(inside[rule.category])
        while pending:
            category = pending.pop()
            if category not in reached:
                reached.add(category)
                pending += inside[category]
        if rule.category in reached:
            raise rule.line.error(
                f"expected a category that does not contain itself, as '{rule.category}' does."
            )
