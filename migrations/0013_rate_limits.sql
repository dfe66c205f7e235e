-- How much of a minute's quota of requests the nodes have taken, by whom it is counted against: a key or a network.

-- minute is counted since 1970 by the clock of the node that asks; block is what the last lease took. Rows of minutes that are over are
-- deleted, so the table holds a few minutes of clients.
CREATE TABLE rate_lease (
    minute BIGINT NOT NULL,
    subject {TEXT} NOT NULL,
    granted BIGINT NOT NULL,
    block BIGINT NOT NULL,
    PRIMARY KEY (minute, subject)
){CLUSTERED}{HOT};
