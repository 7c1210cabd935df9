import { chmodSync, mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { type Journal, type Row, StorageError } from './object-store.ts';

/** The file's header contains this id of the program, and `layout`, the version of the tables. */
const applicationId = 0x434f_4f50;
const layout = 1;

const sqliteCode = (error: unknown): number | undefined => {
  const code =
    typeof error === 'object' && error !== null && 'errcode' in error ? error.errcode : undefined;
  return typeof code === 'number' ? code & 0xff : undefined;
};

/** Primary result codes of SQLite for which `explain` has a specific message. */
const busy = 5;
const locked = 6;
const corrupt = 11;
const notADatabase = 26;

function explain(file: string, error: unknown): StorageError {
  if (error instanceof StorageError) return error;
  const cause = { cause: error };
  switch (sqliteCode(error)) {
    case busy:
    case locked:
      return new StorageError(
        'Locked',
        `${file} is in use by another process; end that one first`,
        cause,
      );
    case corrupt:
    case notADatabase:
      return new StorageError(
        'Corrupt',
        `${file} is damaged or not a database of this program; restore it or move it away`,
        cause,
      );
    default:
      return new StorageError(
        'Unusable',
        `${file} can't be opened: ${error instanceof Error ? error.message : String(error)}`,
        cause,
      );
  }
}

/** Objects in one SQLite file, which this process uses exclusively while the file is open. */
export class SqliteJournal implements Journal {
  readonly durable = true;
  readonly #file: string;
  readonly #database: DatabaseSync;
  readonly #put: StatementSync;
  readonly #remove: StatementSync;
  readonly #setRevision: StatementSync;

  /** @throws StorageError when the file is locked, damaged, or of a later version */
  constructor(file: string) {
    this.#file = file;
    let database: DatabaseSync | undefined;
    try {
      mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
      database = new DatabaseSync(file, { timeout: 0 });
      prepareFile(database, file);
      this.#put = database.prepare(
        'INSERT OR REPLACE INTO objects (resource, namespace, name, version, json) VALUES (?, ?, ?, ?, ?)',
      );
      this.#remove = database.prepare(
        'DELETE FROM objects WHERE resource = ? AND namespace = ? AND name = ?',
      );
      this.#setRevision = database.prepare('UPDATE revision SET value = ?');
      this.#database = database;
    } catch (error) {
      if (database?.isOpen === true) database.close();
      throw explain(file, error);
    }
  }

  load(): { rows: readonly Row[]; revision: number } {
    try {
      const rows = this.#database
        .prepare(
          'SELECT resource, namespace, name, version, json FROM objects ORDER BY resource, namespace, name',
        )
        .all();
      const stored = this.#database.prepare('SELECT value FROM revision').get();
      return {
        revision: Number(stored?.['value']),
        rows: rows.map(({ resource, namespace, name, version, json }) => ({
          resource: String(resource),
          namespace: String(namespace),
          name: String(name),
          version: Number(version),
          json: String(json),
        })),
      };
    } catch (error) {
      throw explain(this.#file, error);
    }
  }

  append(rows: readonly Row[], revision: number): void {
    this.#database.exec('BEGIN IMMEDIATE');
    try {
      for (const { resource, namespace, name, version, json } of rows) {
        if (json === undefined) this.#remove.run(resource, namespace, name);
        else this.#put.run(resource, namespace, name, version, json);
      }
      this.#setRevision.run(revision);
      this.#database.exec('COMMIT');
    } catch (error) {
      if (this.#database.isTransaction) this.#database.exec('ROLLBACK');
      throw error;
    }
  }

  close(): void {
    if (this.#database.isOpen) this.#database.close();
  }
}

function prepareFile(database: DatabaseSync, file: string): void {
  // EXCLUSIVE: no other process can use the file. FULL: a commit returns once it is on the disk.
  database.exec(
    'PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 1000;',
  );
  database.exec('BEGIN EXCLUSIVE; COMMIT');
  const pragma = (name: string): unknown => database.prepare(`PRAGMA ${name}`).get()?.[name];
  const verdict = pragma('quick_check');
  if (verdict !== 'ok')
    throw new StorageError(
      'Corrupt',
      `${file} is damaged (${String(verdict)}); restore it or move it away`,
    );
  const id = pragma('application_id');
  const tables = database.prepare('SELECT count(*) AS tables FROM sqlite_schema').get()?.['tables'];
  if (id !== applicationId && tables !== 0)
    throw new StorageError('Corrupt', `${file} belongs to another program; choose another file`);
  const version = Number(pragma('user_version'));
  if (version > layout)
    throw new StorageError('TooNew', `${file} was written by a later version of this program`);
  if (version === layout) return;
  database.exec(`
    BEGIN;
    CREATE TABLE objects (
      resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, version INTEGER NOT NULL, json TEXT NOT NULL,
      PRIMARY KEY (resource, namespace, name)
    ) WITHOUT ROWID;
    CREATE TABLE revision (value INTEGER NOT NULL);
    INSERT INTO revision VALUES (0);
    PRAGMA application_id = ${applicationId};
    PRAGMA user_version = ${layout};
    COMMIT;
  `);
  // The file may contain Secrets.
  chmodSync(file, 0o600);
}
