"""examples/model_actor.py"""

from __future__ import annotations

from example_runner import run_example


def test_the_librarian_answers_with_the_models_words_and_within_its_authority() -> None:
    assert run_example("model_actor").splitlines() == [
        "To the Lighthouse, by Virginia Woolf. (says scripted)",
        "ModelFailed: the model is tired",
        "/user/librarian: model.complete is denied at /user/model",
        "/user/mute: model.complete is denied at /user/model",
    ]
