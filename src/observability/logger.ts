import { createLogger as createWinston, format, transports, type Logger as Winston } from 'winston';
import type { LogFields, Logger, LogLevel } from '@conversation-operator/base/logger';

export interface LoggerOptions {
  readonly level: LogLevel;
  /** pretty: for a terminal. json: one JSON object per line. */
  readonly format: 'json' | 'pretty';
  /** Destination of log lines; standard error by default. */
  readonly stream?: NodeJS.WritableStream;
}

const plainError = (error: unknown): unknown =>
  error instanceof Error
    ? {
        name: error.name,
        message: error.message,
        stack: error.stack,
        ...(error.cause === undefined ? {} : { cause: plainError(error.cause) }),
      }
    : error;

const pretty = format.printf(({ timestamp, level, message, ...fields }) => {
  const present = Object.entries(fields).filter(([, value]) => value !== undefined);
  const rest = present.map(([key, value]) => {
    const text =
      key === 'error' ? ((value as { stack?: string }).stack ?? JSON.stringify(value)) : value;
    return `${key}=${typeof text === 'string' ? text : JSON.stringify(text)}`;
  });
  return `${String(timestamp).slice(11, 23)} ${level.padEnd(5)} ${String(message)}${rest.length > 0 ? `  ${rest.join(' ')}` : ''}`;
});

const json = format.printf(({ timestamp, level, message, ...fields }) =>
  JSON.stringify({ timestamp, level, message, ...fields }),
);

class WinstonLogger implements Logger {
  readonly #winston: Winston;
  readonly #fields: LogFields;

  constructor(winston: Winston, fields: LogFields) {
    this.#winston = winston;
    this.#fields = fields;
  }

  error(message: string, fields?: LogFields): void {
    this.#write('error', message, fields);
  }

  warn(message: string, fields?: LogFields): void {
    this.#write('warn', message, fields);
  }

  info(message: string, fields?: LogFields): void {
    this.#write('info', message, fields);
  }

  debug(message: string, fields?: LogFields): void {
    this.#write('debug', message, fields);
  }

  enabled(level: LogLevel): boolean {
    return this.#winston.isLevelEnabled(level);
  }

  child(fields: LogFields): Logger {
    return new WinstonLogger(this.#winston, { ...this.#fields, ...fields });
  }

  #write(level: LogLevel, message: string, fields: LogFields | undefined): void {
    // winston formats messages even below the log level, which takes 2 µs a call.
    if (!this.#winston.isLevelEnabled(level)) return;
    const all: Record<string, unknown> = { ...this.#fields, ...fields };
    if ('error' in all) all['error'] = plainError(all['error']);
    this.#winston.log({ level, message, ...all });
  }
}

export function createLogger(options: LoggerOptions): Logger {
  const winston = createWinston({
    level: options.level,
    format: format.combine(format.timestamp(), options.format === 'json' ? json : pretty),
    transports: [new transports.Stream({ stream: options.stream ?? process.stderr })],
  });
  return new WinstonLogger(winston, {});
}
