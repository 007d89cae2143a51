CREATE TABLE customers (id bigint PRIMARY KEY, name text NOT NULL);
CREATE TABLE orders (id bigint PRIMARY KEY, customer bigint NOT NULL REFERENCES customers, total numeric(12, 2));
INSERT INTO customers VALUES (1, 'Ada'), (2, 'Kim');
INSERT INTO orders VALUES (1, 1, 12.50), (2, 2, 7.25);
