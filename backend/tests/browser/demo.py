"""A home to show: a few weeks of somebody's conversations, and what was made of them. The same every time."""

from collections.abc import Sequence
from pathlib import Path

from tests.browser.demo_server import CLOCK
from tests.browser.site import MINUTE, Site
from tests.http_client import Json
from tests.processes import StandInModel, wait_until
from tests.standins.tool_tasks import tool_task

NOW = 1_778_248_980_000
"""2026-05-08T14:03:00Z, when the last of it has been said."""
USER = "ann"
HOUR = 60 * MINUTE
DAY = 24 * HOUR
ROOM = {"RECOLLECT_PORT": "0"}

EARLIER: tuple[tuple[str, str, int, tuple[tuple[str, str], ...]], ...] = (
    (
        "hello", "Hello", NOW - 24 * DAY,
        (
            ("user", "Hello! My name is Ann."),
            ("assistant", "Nice to meet you, Ann."),
        ),
    ),
    (
        "new-flat", "A flat in Berlin", NOW - 23 * DAY,
        (
            ("user", "I live in Berlin. The new flat has a balcony to the south."),
            ("assistant", "Congratulations! Tomatoes and basil would love a balcony like that."),
            ("user", "I like tomatoes. I have a dog called Rex and he eats everything that grows."),
            ("assistant", "Then hang the pots high. Tomato leaves are not good for dogs."),
        ),
    ),
    (
        "night-shifts", "Night shifts", NOW - 12 * DAY,
        (
            ("user", "I work as a nurse and have four night shifts in a row. How do I sleep by day?"),
            ("assistant", "Keep the room dark and cool, and go to bed at the same hour after each shift."),
            ("user", "I like herbal tea. Coffee never after midnight."),
            ("assistant", "A good rule. Bright light when you get up helps, too."),
        ),
    ),
    (
        "marta", "Marta moves to Porto", NOW - 6 * DAY,
        (
            ("user", "My sister Marta is moving to Porto! I'm flying to Lisbon on 3 June 2026 to visit her."),
            ("assistant", "How lovely. From Lisbon it is three hours to Porto by train."),
            ("user", "I like trains. She starts as a nurse in the hospital there on 1 June."),
            ("assistant", "Two nurses in the family, then."),
        ),
    ),
)  # fmt: skip

PACKING = """Four days in early June, so pack light:

| what | how many |
| --- | --- |
| shirts and trousers | 4 |
| a light jacket for the evenings | 1 |
| good shoes: the streets are steep | 1 |

And a small thing for **Marta's** new kitchen."""

TRAINS = """This asks for the fastest train of the day:

```python
def fastest(trains: list[Train]) -> Train:
    \"\"\"The one that is under way for the shortest time.\"\"\"
    return min(trains, key=lambda train: train.arrives - train.leaves)
```

On most days that is the *Alfa Pendular* at 9:39, two hours and 58 minutes."""

TODAY: tuple[tuple[str, str], ...] = (
    ("What should I pack for my flight to Lisbon?", PACKING),
    ("How do I find the fastest train to Porto? I have a list of them in Python.", TRAINS),
    ("Who looks after the dog meanwhile?", "You have not said yet. Shall I remind you to ask somebody by the end of May?"),
    ("Is the train better than a bus?", "You like trains, and it is an hour faster."),
    ("How far is it to walk from the station to the river?", "Twenty minutes, downhill all the way."),
    ("And what is the weather like in June?", "Warm, about 24 °C, with a cool wind in the evening."),
    ("Yes, remind me about Rex. And what did I say about tea?", "That you like herbal tea, and drink no coffee after midnight."),
)  # fmt: skip
RECALLED = (
    "What could I grow on my balcony?",
    "Tomatoes: you like them, and the balcony faces south. Hang the pots high, or Rex eats them.",
)
CHAT = "lisbon"
LAST_ANSWER = f"t-{2 * len(TODAY)}"
NOTE = """# Lisbon

- Tram 28 early in the morning
- Miradouro da Senhora do Monte at sunset
- **Pastéis** in Belém, warm
"""


class DemoSite(Site):
    """The demo home on a server whose days are always the same; `furnish` fills it."""

    def __init__(self, home: Path, model: StandInModel) -> None:
        super().__init__(home, model, ROOM)
        self.run_instead("tests.browser.demo_server")
        self._clock = home.parent / CLOCK
        self._set_clock(EARLIER[0][2])

    def furnish(self) -> None:
        self.model.control(caches=True, script=dict((*TODAY, RECALLED)))
        for thread, title, start, said in EARLIER:
            self._tell(thread, title, start, [{"role": role, "content": text} for role, text in said])
        for number, server in enumerate(("web", "mail", "database")):
            asked = f"Free some space on the full disk of the {server} server"
            start = NOW - (5 - number) * DAY
            task = tool_task(f"d{number}-", start, asked, user=USER)
            self._tell(f"disk-{number}", f"Disk of the {server} server", start, task, agent_id="housekeeper")
        self._set_clock(NOW - len(TODAY) * 2 * MINUTE)
        self.post("memory/notes", user_id=USER, name="Lisbon.md", text=NOTE)
        self.post("threads", thread_id=CHAT, user_id=USER, title="Packing for Lisbon")
        for number, (asked, _) in enumerate(TODAY):
            self._set_clock(NOW - (len(TODAY) - number) * 2 * MINUTE)
            self.post(f"threads/{CHAT}/messages", user_id=USER, content=asked)
        self._settle()

    def _tell(self, thread: str, title: str, start: int, said: Sequence[Json], **fields: str) -> None:
        """What was said then, and all that is made of it."""
        self._set_clock(start)
        messages = [
            {
                "sender_id": USER if each["role"] == "user" else each["role"],
                "timestamp": start + number * MINUTE,
                **each,
            }
            for number, each in enumerate(said)
        ]
        self.post("threads", thread_id=thread, user_id=USER, title=title)
        self.post("memory/add", session_id=thread, user_id=USER, messages=messages, **fields)
        self.post("memory/flush", session_id=thread, user_id=USER, timeout=60)
        self._settle()

    def _settle(self) -> None:
        wait_until(lambda: self._is_settled(USER), "every message indexed, every job done", seconds=60)

    def _set_clock(self, now: int) -> None:
        beside = self._clock.with_suffix(".new")
        self._clock.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(str(now))
        beside.replace(self._clock)
