"""Writers that come with holdfast, on real rows."""

from holdfast import console


def test_the_console_shows_an_epochs_rows(spark, capfd):
    console(spark.createDataFrame([(1, "abc")], "seq long, ticker string"), 7, "tentative")
    said = capfd.readouterr().out
    assert "epoch 7, tentative, 1 rows" in said
    assert "|1  |abc   |" in said
