"""The rankings that an ablation compares with the shipped one: what each part of the score brings."""

from dataclasses import fields, replace

from recollect.domain.recall.rank import Weights

_DEFAULT = Weights()
_OFF = Weights(**{each.name: 0 for each in fields(Weights)})  # type: ignore[arg-type]

VARIANTS: dict[str, Weights] = {
    "words alone": replace(_OFF, words=1),
    "meaning alone": replace(_OFF, meaning=1, centred=True),
    "words and meaning": replace(_OFF, words=_DEFAULT.words, meaning=_DEFAULT.meaning, centred=True),
    "all, without words": replace(_DEFAULT, words=0),
    "all, without meaning": replace(_DEFAULT, meaning=0),
    "all, without centring": replace(_DEFAULT, centred=False),
    "all, without the neighbourhood": replace(_DEFAULT, near_people=0, near_assistant=0),
    "all, without dates": replace(_DEFAULT, date=0, meant=0, meant_words=0, meant_alone=0),
    "all, without speakers": replace(_DEFAULT, speaker=0, speaker_of_past=0, first_speaker=0),
    "all, without question and answer": replace(_DEFAULT, asking=0, answer=0, reply=0),
    "all, without the user's precedence": replace(_DEFAULT, user=0, instruction=0, preference=0),
    "all, without what memories bring": replace(_DEFAULT, brought=0),
}
