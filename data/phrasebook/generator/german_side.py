"""German tokens of rules as operations."""

from collections.abc import Callable

from generator import german
from generator.rules import Token
from generator.side import DEGREES, GROUP, MARKER, TENSES, Marks, Out, Phrase, Side, Write

DETERMINERS = german.determiners()
PRONOUNS = german.split(german.PRONOUN)
FORMS = {"participle", "infinitive", "zu", "imperative", "bare"}


class German(Side):
    """Cases are handed down; words agree with the heads of slots."""

    language = "de"

    def inflecting(self, token: Token, word: str) -> Write | None:
        """The operation of a determiner or a pronoun, or None for another word."""
        # sein is also "his"
        finite = word in self.lexicon.auxiliaries and TENSES.keys() & set(token.words)
        if word in DETERMINERS and not finite:
            return self.determiner(token, word)
        return self.pronoun(token, word) if word in ("er", "sich", "poss") else None

    def slot_token(self, token: Token, index: int, kind: str) -> Write:
        """{S}, {O acc}, {O V}, {P at}: what fills a slot, in a case."""
        if kind == "verb":
            return self.verb(token, index)
        if kind == "adjective":
            return self.adjective(token, index)
        label = token.words[0]
        if kind == "word":
            return self.word(token, index)
        features, governors = self.features_and_slots(token, {*german.CASES, "at", "to"})
        relation = next((word for word in features if word in ("at", "to")), None)
        if relation:
            marks = self.marks(token, ((label + ".preposition", True),))
            return lambda out, phrase, form: out.append(
                (getattr(phrase.heads[index], relation)[0], marks(phrase.base))
            )
        case = next((german.CASE[word] for word in features if word in german.CASE), None)
        if kind in ("noun", "pronoun"):
            marks = self.marks(token, ((label, True),))
            if governors:
                by = governors[0]
                return lambda out, phrase, form: out.append(
                    (
                        phrase.slots[index].german[phrase.slots[by].preposition[1]],
                        marks(phrase.base),
                    )
                )

            def noun(out: Out, phrase: Phrase, form: int) -> None:
                out.append(
                    (phrase.slots[index].german[form if case is None else case], marks(phrase.base))
                )

            return noun
        self.cases.setdefault(label, 1 if governors else case or 0)
        if governors:
            verb = governors[0]

            def governed(out: Out, phrase: Phrase, form: int) -> None:
                inner = phrase.slots[index]
                case = phrase.slots[verb].preposition[1]
                for write in inner.write[0]:
                    write(out, inner, case)

            self.label_tokens.setdefault(label, token)
            return governed
        self.label_tokens.setdefault(label, token)
        fixed = 0 if case is None and self.rule.category == "sentence" else case

        def phrase_slot(out: Out, phrase: Phrase, form: int) -> None:
            inner = phrase.slots[index]
            inner_form = form if fixed is None else fixed
            for write in inner.write[0]:
                write(out, inner, inner_form)

        return phrase_slot

    def verb(self, token: Token, index: int) -> Write:
        """{V pres S}, {V participle}, {V aux S}, {V prefix}, {V preposition}, …"""
        features, slots = self.features_and_slots(
            token, {*TENSES, *FORMS, "aux", "prefix", "final", "preposition"}
        )
        label = token.words[0]
        if "prefix" in features:
            marks = self.with_particle(token, label, False, False)

            def prefix(out: Out, phrase: Phrase, form: int) -> None:
                if phrase.slots[index].prefix:
                    out.append((phrase.slots[index].prefix, marks(phrase.base)))

            return prefix
        if "preposition" in features:
            marks = self.marks(token, ((label + ".preposition", True),))
            return lambda out, phrase, form: out.append(
                (phrase.slots[index].preposition[0], marks(phrase.base))
            )
        if "aux" in features:
            marks = self.marks(token, ((label, False),))
            subject = self.agreement_slot(token, slots)
            tense = TENSES[next((word for word in features if word in TENSES), "pres")]
            auxiliaries = self.lexicon.auxiliaries

            def aux(out: Out, phrase: Phrase, form: int) -> None:
                name = phrase.slots[index].auxiliary
                out.append(
                    (auxiliaries[name][tense][phrase.heads[subject].person], marks(phrase.base))
                )

            return aux
        joined = self.with_particle(token, label, True, True)
        separate = self.with_particle(token, label, True, False)
        finite = next(
            (TENSES[word] for word in features if word in TENSES),
            "present" if "final" in features else None,
        )
        if finite:
            subject = self.agreement_slot(token, slots)
            final = "final" in features

            def finite_verb(out: Out, phrase: Phrase, form: int) -> None:
                verb = phrase.slots[index]
                word = verb.german[finite][phrase.heads[subject].person]
                if verb.prefix and not final:
                    out.append((word, separate(phrase.base)))
                else:
                    out.append((verb.prefix + word, joined(phrase.base)))

            return finite_verb
        which = features[0] if features else "infinitive"
        possible = self.marks(
            token, tuple((name, False) for name, _ in token.labels or ((label, True),)), given=False
        )

        def nonfinite(out: Out, phrase: Phrase, form: int) -> None:
            *zu, word = phrase.slots[index].german[which]
            # zu gehen: only the verb itself is sure
            out.extend((part, possible(phrase.base)) for part in zu)
            split = which in ("imperative", "bare") and phrase.slots[index].prefix
            out.append((word, (separate if split else joined)(phrase.base)))

        return nonfinite

    def with_particle(
        self, token: Token, label: str, verb: bool, particle: bool
    ) -> Callable[[int], Marks]:
        """Marks for the English verb and for its particle (up, part): whether each is sure."""
        marks = self.marks(token, ((label, verb),))
        if token.labels:
            return marks
        return lambda base: (*marks(base), *((key + GROUP, particle) for key, _ in marks(base)))

    def adjective(self, token: Token, index: int) -> Write:
        """{A}, {A weak N}, {A comparative mixed N acc}."""
        features, slots = self.features_and_slots(token, {*german.ENDINGS, *DEGREES, *german.CASES})
        marks = self.marks(token, ((token.words[0], True),))
        degree = next((DEGREES[word] for word in features if word in DEGREES), 0)
        ending = next((german.ENDINGS[word] for word in features if word in german.ENDINGS), None)
        if ending is None:
            return lambda out, phrase, form: out.append(
                (phrase.slots[index].german[degree][0], marks(phrase.base))
            )
        noun = self.agreement_slot(token, slots)
        case = next((german.CASE[word] for word in features if word in german.CASE), None)

        def attribute(out: Out, phrase: Phrase, form: int) -> None:
            end = ending[phrase.heads[noun].gender][form if case is None else case]
            out.append((phrase.slots[index].german[degree][1] + end, marks(phrase.base)))

        return attribute

    def determiner(self, token: Token, word: str) -> Write:
        """{der N}, {kein N acc}, {rel N dat}."""
        features, slots = self.features_and_slots(token, set(german.CASES))
        noun = self.agreement_slot(token, slots)
        forms = DETERMINERS[word]
        if word in self.label_tokens and not token.labels:
            raise token.line.error(
                f"expected a label of its own behind the second {{{word} …}}, such as ~x."
            )
        marks = self.marks(token, ((word, True),))
        case = next((german.CASE[name] for name in features), None)
        before = MARKER if word == "der" else ""

        def write(out: Out, phrase: Phrase, form: int) -> None:
            text = forms[phrase.heads[noun].gender][form if case is None else case]
            out.append((before + text, marks(phrase.base)))

        return write

    def pronoun(self, token: Token, word: str) -> Write:
        """{er acc S}, {sich S}, {poss S N acc}: what stands for, or belongs to, a slot."""
        features, slots = self.features_and_slots(token, set(german.CASES))
        marks = self.marks(token, ((word, True),))
        case = next((german.CASE[name] for name in features), None)
        if word == "er":
            referent = self.agreement_slot(token, slots)
            return lambda out, phrase, form: out.append(
                (PRONOUNS[phrase.heads[referent].gender][case or 0], marks(phrase.base))
            )
        if word == "sich":
            referent = self.agreement_slot(token, slots)
            table = german.REFLEXIVES_DATIVE if case == german.CASE["dat"] else german.REFLEXIVES
            return lambda out, phrase, form: out.append(
                (table[phrase.heads[referent].person], marks(phrase.base))
            )
        if len(slots) != 2:
            raise token.line.error("expected {poss OWNER THING CASE}.")
        owner, thing = slots

        def possessive(out: Out, phrase: Phrase, form: int) -> None:
            own = phrase.heads[owner]
            of = phrase.heads[thing]
            stem = (
                "ihr" if own.person == 2 and own.gender == "f" else german.POSSESSIVES[own.person]
            )
            out.append(
                (DETERMINERS[stem][of.gender][form if case is None else case], marks(phrase.base))
            )

        return possessive
