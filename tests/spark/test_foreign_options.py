"""Options as Kafka's source and sink call them."""

import pytest

from antiphon.errors import UsageError
from antiphon.spark.options import check_options


def test_what_means_the_same_is_understood() -> None:
    reading, writing = check_options(
        {
            "endpoint": "a:1",
            "startingOffsets": "latest",
            "endingTimestamp": "1763272800000",
            "maxOffsetsPerTrigger": "5000",
            "subscribe": "tea, news",
            "topic": "loud",
            "failOnDataLoss": "false",
        }
    )
    assert (reading.start, reading.max_rows, reading.groups) == ("latest", 5_000, ("tea", "news"))
    assert reading.end.isoformat() == "2025-11-16T06:00:00+00:00"
    assert (writing.groups, reading.fails_on_data_loss) == (("loud",), False)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"startingOffsets": '{"tea":{"0":5}}'},
            "a journal has no partitions; give the option start: earliest",
        ),
        ({"startingOffsets": "soon"}, "option start: 'soon' is not earliest, latest, an offset, or a time"),
        ({"startingOffsets": "latest", "start": "5"}, "startingOffsets says the same as start; give one"),
        ({"startingTimestamp": "noon"}, "option startingTimestamp: 'noon' is no time in ms"),
        ({"kafka.bootstrap.servers": "a:1"}, "give the option endpoint (a journal) to read, or address"),
        ({"kafka.security.protocol": "SSL"}, "This is no source of Kafka's"),
        ({"subscribePattern": "t.*"}, "give the option groups"),
        ({"minOffsetsPerTrigger": "5"}, "a trigger with a longer processingTime"),
        ({"minPartitions": "5"}, "give the option partitions"),
        ({"maxRowPerTrigger": "5"}, "Did you mean maxRowsPerTrigger?"),
        (
            {"columns": "payload, size"},
            "option columns: no column 'size': the columns of a journal are offset,",
        ),
        ({"columns": "payload, payload"}, "option columns: each column once"),
    ],
)
def test_what_does_not_is_told_what_to_do_instead(options: dict[str, str], told: str) -> None:
    with pytest.raises(UsageError) as error:
        check_options(options)
    assert told in str(error.value)
