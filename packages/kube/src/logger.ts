export const logLevels = ['error', 'warn', 'info', 'debug'] as const;
export type LogLevel = (typeof logLevels)[number];

/** Values that may stand beside a message. An `error` field is written with its stack and causes. */
export type LogFields = Readonly<Record<string, unknown>>;

/** Constant messages with fields. */
export interface Logger {
  error(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  debug(message: string, fields?: LogFields): void;
  /** Whether a message of this level would be written: ask first where fields cost something to make. */
  enabled(level: LogLevel): boolean;
  /** The same logger with fields that every message carries. */
  child(fields: LogFields): Logger;
}

/** Says nothing: for tests and for libraries' defaults. */
export const silentLogger: Logger = {
  error: () => undefined,
  warn: () => undefined,
  info: () => undefined,
  debug: () => undefined,
  enabled: () => false,
  child: () => silentLogger,
};
