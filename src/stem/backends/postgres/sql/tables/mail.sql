-- Control messages: in a box until taken, on a channel until expired.
CREATE SEQUENCE mail_number;
CREATE TABLE mail (
    ns         text COLLATE "C" NOT NULL,
    is_channel boolean NOT NULL,
    name       text COLLATE "C" NOT NULL,
    number     bigint NOT NULL,
    expires_at float8 NOT NULL,
    message    bytea NOT NULL,
    PRIMARY KEY (ns, is_channel, name, number)
);
CREATE INDEX mail_expiry ON mail (ns, expires_at)
