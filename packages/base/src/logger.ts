export const logLevels = ['error', 'warn', 'info', 'debug'] as const;
export type LogLevel = (typeof logLevels)[number];

/** Values beside a message. An `error` field is written with its stack and causes. */
export type LogFields = Readonly<Record<string, unknown>>;

export interface Logger {
  error(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  debug(message: string, fields?: LogFields): void;
  /** Whether a message of this level would be written, checked where fields are costly. */
  enabled(level: LogLevel): boolean;
  child(fields: LogFields): Logger;
}

/** Discards every message; for tests, and the default of libraries. */
export const silentLogger: Logger = {
  error: () => undefined,
  warn: () => undefined,
  info: () => undefined,
  debug: () => undefined,
  enabled: () => false,
  child: () => silentLogger,
};
