import pytest

from components.errors import KfrecError
from components.feature_spec import Feature
from components.models.channels import read_channels, short_length


def test_serving_reads_users_targets_and_positive_histories(spec):
    channels = read_channels(spec, negatives=True)
    assert channels.serving_features == ("uid", "item_trgt", "cat_trgt", "item_pos", "cat_pos")


def test_a_history_with_fewer_features_than_the_target_is_named(make_spec):
    spec = make_spec(channels={"positive_history": ("item_pos",)})
    with pytest.raises(
        KfrecError,
        match=r"feature_spec\.yaml: channel positive_history has 1 features \(item_pos\), but target_item_features has "
        r"2 \(item_trgt, cat_trgt\)",
    ):
        read_channels(spec, negatives=True)


def test_features_in_another_order_are_named(make_spec):
    spec = make_spec(channels={"negative_history": ("cat_neg", "item_neg")})
    with pytest.raises(KfrecError, match=r"negative_history: cat_neg has cardinality 5, but item_trgt .* has 20"):
        read_channels(spec, negatives=True)


def test_histories_of_different_lengths_are_named(make_spec):
    spec = make_spec(features={"cat_pos": Feature("cat_pos", "int64", 5, 7)})
    with pytest.raises(KfrecError, match="cat_pos has length 7, but item_pos has 8"):
        read_channels(spec, negatives=True)


def test_a_history_without_a_length_is_named(make_spec):
    spec = make_spec(features={"item_neg": Feature("item_neg", "int64", 20)})
    with pytest.raises(KfrecError, match="item_neg has no dimensions"):
        read_channels(spec, negatives=True)


def test_a_user_feature_that_is_a_list_is_named(make_spec):
    spec = make_spec(features={"uid": Feature("uid", "int64", 7, 3)})
    with pytest.raises(KfrecError, match=r"feature uid has dimensions \[3\]"):
        read_channels(spec, negatives=True)


@pytest.mark.parametrize(("name", "length"), [("uid", None), ("cat_trgt", None), ("item_pos", 8), ("cat_neg", 3)])
def test_a_feature_without_a_cardinality_is_named(make_spec, name, length):
    spec = make_spec(features={name: Feature(name, "int64", None, length)})
    with pytest.raises(KfrecError, match=f"feature {name} has no cardinality; give its largest id"):
        read_channels(spec, negatives=True)


def test_an_empty_target_is_refused(make_spec):
    empty = {"target_item_features": (), "positive_history": (), "negative_history": ()}
    with pytest.raises(KfrecError, match="target_item_features is empty"):
        read_channels(make_spec(channels=empty), negatives=True)


def test_a_model_without_auxiliary_loss_needs_no_negatives(make_spec):
    spec = make_spec()
    channels = {name: names for name, names in spec.channels.items() if name != "negative_history"}
    spec = type(spec)(spec.features, {}, channels)
    assert read_channels(spec, negatives=False).negative == ()
    with pytest.raises(KfrecError, match="channel_spec has no negative_history"):
        read_channels(spec, negatives=True)


def test_a_long_history_that_leaves_no_short_one_is_refused(spec):
    channels = read_channels(spec, negatives=True)
    assert short_length(spec, channels, 5) == 3
    with pytest.raises(KfrecError, match=r"long_seq_length=8 leaves no short history: item_pos .* choose at most 7"):
        short_length(spec, channels, 8)


def test_a_negative_history_shorter_than_the_short_history_is_refused(spec):
    channels = read_channels(spec, negatives=True)
    with pytest.raises(KfrecError, match="item_neg has length 3, but the short history has 4 items"):
        short_length(spec, channels, 4)
