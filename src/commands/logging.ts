import { createLogger } from '../observability/logger.ts';
import type { Logger, LogLevel } from '@conversation-operator/base/logger';

/** Pretty on a terminal, JSON elsewhere, unless the settings say. */
export const loggerOf = (config: {
  readonly LOG_LEVEL: LogLevel;
  readonly LOG_FORMAT?: 'json' | 'pretty' | undefined;
}): Logger =>
  createLogger({
    level: config.LOG_LEVEL,
    format: config.LOG_FORMAT ?? (process.stderr.isTTY ? 'pretty' : 'json'),
  });
