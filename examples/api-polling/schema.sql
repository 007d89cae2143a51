CREATE TABLE orders (id bigserial PRIMARY KEY, customer bigint NOT NULL, total numeric(12, 2) NOT NULL, state text NOT NULL DEFAULT 'new');
INSERT INTO orders (customer, total) SELECT 1 + n % 7, n * 1.25 FROM generate_series(1, 250) AS n;
CREATE ROLE web_anon NOLOGIN;
GRANT SELECT ON orders TO web_anon;
