"""English tokens of rules as operations."""

from generator import english
from generator.rules import Token
from generator.side import DEGREES, GROUP, Out, Phrase, Side, Write

ROLES = {"subject": 0, "object": 1, "possessor": 2}
FORMS = {"participle", "infinitive", "ing", "past"}


class English(Side):
    """Roles are handed down; verbs agree with the heads of slots."""

    language = "en"

    def inflecting(self, token: Token, word: str) -> Write | None:
        """The operation of a pronoun or a demonstrative, or None for another word."""
        return (
            self.pronoun(token, word)
            if word in ("he", "him", "his", "himself", "this", "that")
            else None
        )

    def slot_token(self, token: Token, index: int, kind: str) -> Write:
        """{S}, {O object}, {N possessor}, {A comparative}, {P at the}: what fills a slot, in a
        role."""
        label = token.words[0]
        if kind == "verb":
            return self.verb(token, index)
        if kind == "adjective":
            features, _ = self.features_and_slots(token, set(DEGREES))
            degree = DEGREES[features[0]] if features else 0
            marks = self.marks(token, ((label, True),))
            return lambda out, phrase, form: out.append(
                (phrase.slots[index].english[degree], marks(phrase.base))
            )
        if kind == "word":
            return self.word(token, index)
        features, _ = self.features_and_slots(token, {*ROLES, "at", "to", "the"})
        relation = next((word for word in features if word in ("at", "to")), None)
        if relation and "the" in features:
            marks = self.marks(token, (("der", True),))

            def the(out: Out, phrase: Phrase, form: int) -> None:
                if getattr(phrase.heads[index], relation)[2]:
                    out.append(("the", marks(phrase.base)))

            return the
        if relation:
            marks = self.marks(token, ((label + ".preposition", True),))
            return lambda out, phrase, form: out.append(
                (getattr(phrase.heads[index], relation)[1], marks(phrase.base))
            )
        role = next((ROLES[word] for word in features), None)
        if kind in ("noun", "pronoun"):
            marks = self.marks(token, ((label, True),))

            def noun(out: Out, phrase: Phrase, form: int) -> None:
                text = phrase.slots[index].english[form if role is None else role]
                own = marks(phrase.base)
                article, space, rest = text.partition(" ")
                # an illness with its article, which German does not have
                if space and article in ("a", "an"):
                    out.append((article, tuple((key, False) for key, _ in own)))
                    text = rest
                out.append((text, own))

            return noun
        self.label_tokens.setdefault(label, token)
        if role is None and self.rule.category == "sentence":
            role = 1 if self.cases.get(label) else 0

        def phrase_slot(out: Out, phrase: Phrase, form: int) -> None:
            inner = phrase.slots[index]
            inner_form = form if role is None else role
            for write in inner.write[1]:
                write(out, inner, inner_form)

        return phrase_slot

    def verb(self, token: Token, index: int) -> Write:
        """{V}, {V pres S}, {V ing}, {V preposition}, …"""
        features, slots = self.features_and_slots(token, {"pres", *FORMS, "preposition"})
        label = token.words[0]
        if "preposition" in features:
            marks = self.marks(token, ((label + ".preposition", True),))
            return lambda out, phrase, form: out.append(
                (phrase.slots[index].preposition[2], marks(phrase.base))
            )
        marks = self.marks(token, ((label, True),))
        single = bool(token.labels)

        def write(out: Out, phrase: Phrase, text: str) -> None:
            first, _, rest = text.partition(" ")
            own = marks(phrase.base)
            out.append((first, own))
            if rest:  # particles: get up, take part
                out.append(
                    (rest, own if single else tuple((key + GROUP, sure) for key, sure in own))
                )

        if "pres" in features:
            referent = self.agreement_slot(token, slots)
            return lambda out, phrase, form: write(
                out,
                phrase,
                phrase.slots[index].english["present"][phrase.heads[referent].english_person],
            )
        which = features[0] if features else "infinitive"
        return lambda out, phrase, form: write(out, phrase, phrase.slots[index].english[which][0])

    def pronoun(self, token: Token, word: str) -> Write:
        """{he S}, {him S}, {his S}, {himself S}; {this N}, {that N}."""
        _, slots = self.features_and_slots(token, set())
        referent = self.agreement_slot(token, slots)
        default = {
            "he": "er",
            "him": "er",
            "his": "poss",
            "himself": "sich",
            "this": "dieser",
            "that": "that",
        }[word]
        marks = self.marks(token, ((default, True),))
        if word in ("this", "that"):
            forms = ("this", "these") if word == "this" else ("that", "those")
            return lambda out, phrase, form: out.append(
                (forms[phrase.heads[referent].english_person > 2], marks(phrase.base))
            )
        if word in ("he", "him"):
            table = english.SUBJECTS if word == "he" else english.OBJECTS
            return lambda out, phrase, form: out.append(
                (table[phrase.heads[referent].natural], marks(phrase.base))
            )

        def write(out: Out, phrase: Phrase, form: int) -> None:
            head = phrase.heads[referent]
            if word == "his":
                text = (
                    english.OWNERS[head.natural]
                    if head.person == 2
                    else english.POSSESSIVES[head.person]
                )
            else:
                third = {"m": "himself", "f": "herself", "n": "itself", "p": "themselves"}
                text = third[head.natural] if head.person == 2 else english.REFLEXIVES[head.person]
            out.append((text, marks(phrase.base)))

        return write
