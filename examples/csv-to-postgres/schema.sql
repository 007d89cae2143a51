CREATE TABLE customers (
	id      bigint PRIMARY KEY,
	name    text NOT NULL,
	email   text NOT NULL,
	balance numeric(12, 2) NOT NULL,
	joined  date NOT NULL,
	loaded  timestamptz NOT NULL
);
