"""Make the recall model, a stage a command; see README.md beside this."""

import argparse
from dataclasses import fields, replace
from pathlib import Path

SHIPPED = Path(__file__).parents[2] / "backend/recollect/models/recall-v1"


def main() -> None:
    parser = argparse.ArgumentParser(prog="train_embedder", description=__doc__)
    parser.add_argument("stage", choices=STAGES)
    parser.add_argument(
        "--work", type=Path, required=True, help="the folder of all models; 'stock' lies in it"
    )
    parser.add_argument("--data", type=Path, help="the folder of Tatoeba, chats and the sets to measure with")
    parser.add_argument(
        "--set", nargs="*", default=[], metavar="NAME=VALUE", help="other values of the recipe"
    )
    parser.add_argument("--seeds", type=int, default=6, help="how many teachers to train, for their mean")
    parser.add_argument("--start", help="the student to go on from, else a new one")
    parser.add_argument("--out", help="the model that is made, else practised or average")
    parser.add_argument("--models", nargs="+", default=["student"], help="what to average, export or measure")
    parser.add_argument("--shares", nargs="+", type=float, help="of each model in their average")
    parser.add_argument("--files", nargs="+", type=Path, help="of pairs, to collect")
    given = parser.parse_args()
    STAGES[given.stage](given)


def prepare(given: argparse.Namespace) -> None:
    import corpus
    import minilm

    tokenizer = corpus.train_tokenizer(
        corpus.read_tatoeba(given.data), minilm.load_tokenizer(given.work / "stock")
    )
    tokenizer.save(str(given.work / "tokenizer.json"))


def teacher(given: argparse.Namespace) -> None:
    import corpus
    import minilm
    from teacher import Recipe, average, train_teacher

    stock, tokenizer = minilm.load(given.work / "stock")
    data, chats = corpus.read_tatoeba(given.data), corpus.read_chats(given.data / "persona-chat.jsonl.gz")
    english = [s for language, s in zip(data.languages, data.sentences, strict=True) if language == "eng"]
    recipe = replace(Recipe(), **_values(Recipe, given.set))
    trained = [
        train_teacher(stock, tokenizer, chats, english, replace(recipe, seed=n)) for n in range(given.seeds)
    ]
    minilm.save(average(trained), tokenizer, given.work / "teacher")


def student(given: argparse.Namespace) -> None:
    import corpus
    import minilm
    from student import Lessons, Recipe, new_student, train_student

    teacher, english = minilm.load(given.work / "teacher")
    recipe = replace(Recipe(), **_values(Recipe, given.set))
    data, chats = corpus.read_tatoeba(given.data), corpus.read_chats(given.data / "persona-chat.jsonl.gz")
    lessons = Lessons(data, chats, english, minilm.load_tokenizer(given.work), recipe.evenness)
    fresh = minilm.load(given.work / given.start)[0] if given.start else new_student(teacher, lessons)
    minilm.save(train_student(fresh, teacher, lessons, recipe), lessons.tokenizer, given.work / "student")


def restore(given: argparse.Namespace) -> None:
    from export import restore_model

    restore_model(SHIPPED, given.work / "restored")


def collect(given: argparse.Namespace) -> None:
    import pairs
    from measure import NO_SHARED_WORDS, open_model

    pairs.write_pairs(pairs.merge(given.files, NO_SHARED_WORDS, open_model(SHIPPED)), pairs.FILE)


def lessons(given: argparse.Namespace) -> None:
    """What `practise` learns from, put together once for all recipes that start from the same model."""
    import corpus
    import minilm
    import pairs
    import torch
    from long_texts import LongTexts, read_runs
    from measure import NO_SHARED_WORDS, read_no_shared_words
    from student import Lessons, Recipe

    frozen, tokenizer = minilm.load(given.work / given.start)
    recipe = replace(Recipe(), **_values(Recipe, given.set))
    data, chats = corpus.read_tatoeba(given.data), corpus.read_chats(given.data / "persona-chat.jsonl.gz")
    lessons = Lessons(data, chats, tokenizer, tokenizer, recipe.evenness)
    measured = {row[0] for rows in read_no_shared_words(NO_SHARED_WORDS).values() for row in rows}
    some = data.sentences[:: max(1, len(data.sentences) // 60_000)]
    plain = [sentence for sentence in some if sentence not in measured]
    taught = pairs.read_pairs(pairs.FILE)
    practice = pairs.Practice(taught, plain, frozen, tokenizer, recipe.evenness)
    long_texts = LongTexts(read_runs(data, chats, taught), tokenizer)
    torch.save((lessons, practice, long_texts), given.work / "lessons.pt")


def practise(given: argparse.Namespace) -> None:
    import minilm
    import torch
    from measure import embedder, watched
    from student import LastLessons, Recipe, train_student

    frozen, tokenizer = minilm.load(given.work / given.start)
    recipe = replace(Recipe(), **_values(Recipe, given.set))
    made = torch.load(given.work / "lessons.pt", map_location=minilm.DEVICE, weights_only=False)
    lessons, practice, long_texts = made
    lessons.spread(recipe.evenness)
    practice.spread(recipe.evenness)
    twin = minilm.copy_of(frozen)
    twin.rounds = recipe.rounds > 0
    embed = embedder(twin, tokenizer)

    def figures(student: minilm.MiniLM) -> str:
        twin.load_state_dict(student.state_dict())
        return ", ".join(f"{name} {share:.1f}" for name, share in watched(embed, given.data).items())

    last = LastLessons(practice, long_texts, figures)
    trained = train_student(minilm.copy_of(frozen), frozen, lessons, recipe, last)
    minilm.save(trained, tokenizer, given.work / (given.out or "practised"))
    print(f"done: {figures(trained)}", flush=True)


def average(given: argparse.Namespace) -> None:
    import minilm
    from teacher import average as mean

    loaded = [minilm.load(given.work / name) for name in given.models]
    out = given.work / (given.out or "average")
    minilm.save(mean([model for model, _ in loaded], given.shares), loaded[0][1], out)


def export(given: argparse.Namespace) -> None:
    from export import export_model

    for name in given.models:
        export_model(given.work / name, given.work / f"{name}-onnx")


def measure(given: argparse.Namespace) -> None:
    from measure import measure_cost, measure_meaning, open_model, table

    print(table({name: measure_meaning(open_model(given.work / name), given.data) for name in given.models}))
    for name in given.models:
        if name.endswith("-onnx"):
            measure_cost(name, given.work / name, given.data)


def _values(recipe: type, chosen: list[str]) -> dict[str, float]:
    kinds = {entry.name: type(entry.default) for entry in fields(recipe)}
    return {name: kinds[name](value) for name, value in (entry.split("=") for entry in chosen)}


STAGES = {
    stage.__name__: stage
    for stage in (prepare, teacher, student, restore, collect, lessons, practise, average, export, measure)
}

if __name__ == "__main__":
    main()
