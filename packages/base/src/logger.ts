export const logLevels = ['error', 'warn', 'info', 'debug'] as const;
export type LogLevel = (typeof logLevels)[number];

/** Fields of a log line. The logger writes an `error` with its stack and causes. */
export type LogFields = Readonly<Record<string, unknown>>;

export interface Logger {
  error(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  debug(message: string, fields?: LogFields): void;
  /** Whether messages of this level are written. Callers check this before costly fields. */
  enabled(level: LogLevel): boolean;
  child(fields: LogFields): Logger;
}

/** Discards every message. Tests use this logger, and libraries do by default. */
export const silentLogger: Logger = {
  error: () => undefined,
  warn: () => undefined,
  info: () => undefined,
  debug: () => undefined,
  enabled: () => false,
  child: () => silentLogger,
};
