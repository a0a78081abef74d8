"""What is shown holds no credentials, wherever in it they stand."""

import time

import pytest

from stem.core.errors import LakeRefused, StoreUnavailable
from stem.core.settings.app import ControlSettings, PipelineSettings, Settings
from stem.core.text.masking import is_secret, masked, masked_options, masked_path, masked_text

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3a://AKIA:hunter2@bucket/lake", "s3a://AKIA:***@bucket/lake"),
        ("abfss://lake@account.dfs.core.windows.net/x", "abfss://lake@account.dfs.core.windows.net/x"),
        ("https://a.blob.net/lake?sv=1&sig=hunter2&se=2", "https://a.blob.net/lake?sv=1&sig=***&se=2"),
        ("https://h/x?X-Amz-Signature=hunter2&X-Amz-Date=1", "https://h/x?X-Amz-Signature=***&X-Amz-Date=1"),
        ("https://h/x?access%5Ftoken=hunter2", "https://h/x?access%5Ftoken=***"),
        ("https://h/x#access_token=hunter2", "https://h/x#access_token=***"),
        ("https://hunter2@h/x", "https://***@h/x"),
        ("sc://h:15002/;token=hunter2;user_id=me", "sc://h:15002/;token=***;user_id=me"),
        ("postgresql://h/db?sslkey=/etc/key.pem&sslpassword=hunter2", "postgresql://h/db?sslkey=/etc/key.pem&sslpassword=***"),
        ("postgresql://u:hunter2@a:1,b:2/db", "postgresql://u:***@a:1,b:2/db"),
        ("redis://user:hunter2", "redis://***"),
        ("redis://u:hunter2@[bad/0", "redis://***"),
        ("redis://u:hun ter2@h x/0", "redis://***"),
        ("user:hunter2@host/db", "***"),
        ("host=h password=hunter2", "***"),
        ("/var/lib/stem/revokes.stem", "/var/lib/stem/revokes.stem"),
        ("redis://[::1]:6379/0", "redis://[::1]:6379/0"),
    ],
)  # fmt: skip
def test_an_address_is_shown_without_its_credentials_or_not_at_all(url: str, shown: str) -> None:
    assert masked(url) == shown


@pytest.mark.parametrize(
    ("name", "is_hidden"),
    [
        ("spark.hadoop.fs.s3a.secret.key", True),
        ("spark.hadoop.fs.s3a.access.key", True),
        ("spark.hadoop.fs.azure.account.key.a.dfs.core.windows.net", True),
        ("spark.hadoop.fs.azure.sas.lake.a.blob.core.windows.net", True),
        ("spark.ssl.keyPassword", True),
        ("STEM_CONTROL_TOKEN", True),
        ("db_passwd", True),
        ("sig", True),
        ("spark.executor.memory", False),
        ("design", False),
        ("key_file", False),
        ("sslkey", False),
    ],
)
def test_a_name_says_whether_its_value_is_secret(name: str, is_hidden: bool) -> None:
    assert is_secret(name) is is_hidden


def test_options_and_addresses_are_shown_by_name() -> None:
    shown = masked_options(
        {
            "spark.hadoop.fs.s3a.secret.key": SECRET,
            "spark.executor.memory": "2g",
            "spark.jars.repositories": f"https://u:{SECRET}@repo.example.org/x",
        }
    )
    assert SECRET not in str(shown) and shown["spark.executor.memory"] == "2g"


@pytest.mark.parametrize(
    "text",
    [
        f"cannot read s3a://AKIA:{SECRET}@bucket/x: denied",
        f"HEAD 'https://a.blob.net/x?sv=1&sig={SECRET}' failed",
        f"unknown option spark.hadoop.fs.s3a.secret.key={SECRET} given",
        f"conf was {{'fs.s3a.secret.key': '{SECRET}'}}",
        f'conf was {{"fs.s3a.secret.key": "{SECRET}"}}',
        f"connection failed: host=h password={SECRET} user=me",
        f"password='{SECRET} and {SECRET}' is wrong",
        f"AWS_SECRET_ACCESS_KEY={SECRET}",
        f"STEM_SIGNING_KEYS=one:hmac:{SECRET}",
        f"the header was token: {SECRET}",
        f"Authorization: Bearer {SECRET}",
        f"got {{'password': '{SECRET}', 'user': 'me'}}",
        f"api-key={SECRET}, sent twice",
    ],
)
def test_a_sentence_is_told_without_the_credentials_in_it(text: str) -> None:
    assert SECRET not in masked_text(text) and "***" in masked_text(text)
    assert SECRET not in str(LakeRefused(text)) and SECRET not in repr(StoreUnavailable(text))


@pytest.mark.parametrize(
    "text",
    [
        "use postgresql://user:password@host/database.",
        "write redis://[user:password@]host[:port][/database].",
        "signing.keys: The key 'one' is too short; use 32 bytes.",
        "control.token: use at least 16 characters.",
        "STEM_SIGNING_KEYS: the key 'one' is too short.",
        "unique_key=order-7 is taken; the password_file=/etc/stem/pw is not read.",
        "At 12:30 the queue a=b:c had 3 tasks; see http://localhost:4040/jobs?id=7",
    ],
)
def test_text_without_credentials_is_shown_unchanged(text: str) -> None:
    assert masked_text(text) == text


def test_a_long_text_of_a_strangers_is_looked_through_at_once() -> None:
    begun = time.process_time()
    for text in ("token" * 20_000, "token=" * 20_000, "-" * 100_000 + ":", "password: '" + " " * 100_000):
        masked_text(text)
    assert time.process_time() - begun < 2


def test_settings_tell_no_secret_of_themselves() -> None:
    control = ControlSettings(token=SECRET * 3, http="127.0.0.1:1")
    pipeline = PipelineSettings(
        remote=f"sc://h/;token={SECRET}", lake=f"s3a://a:{SECRET}@b", conf={"spark.x.secret": SECRET, "spark.y": "1"}
    )
    settings = Settings(broker_url=f"redis://:{SECRET}@h", control=control, pipeline=pipeline)
    assert SECRET not in repr(settings) + repr(control) + repr(pipeline)
    assert "127.0.0.1:1" in repr(control) and "'spark.y': '1'" in repr(pipeline)


def test_a_key_in_place_of_its_path_is_not_shown() -> None:
    assert masked_path("/etc/stem/key.pem") == "/etc/stem/key.pem"
    assert masked_path("-----BEGIN PRIVATE KEY-----\nMIG") == "***"


@pytest.mark.parametrize("secret", ["abc/def+ghi", "a?b", "a#b", "p@ss/word"])
def test_a_password_with_characters_of_a_url_in_it_is_not_shown(secret: str) -> None:
    url = f"s3a://AKIAX:{secret}@bucket/lake"
    for shown in (
        masked(url),
        masked_text(f"{url} cannot be reached."),
        masked_options({"fs.defaultFS": url})["fs.defaultFS"],
    ):
        assert secret not in shown and "bucket/lake" in shown
