import type { LogFields, Logger, LogLevel } from '@conversation-operator/base/logger';

export interface LogLine {
  readonly level: LogLevel;
  readonly message: string;
  readonly fields: LogFields;
}

export function recordingLogger(): { readonly logger: Logger; readonly lines: LogLine[] } {
  const lines: LogLine[] = [];
  const withFields = (common: LogFields): Logger => {
    const write = (level: LogLevel) => (message: string, fields?: LogFields) => {
      lines.push({ level, message, fields: { ...common, ...fields } });
    };
    return {
      error: write('error'),
      warn: write('warn'),
      info: write('info'),
      debug: write('debug'),
      enabled: () => true,
      child: (fields) => withFields({ ...common, ...fields }),
    };
  };
  return { logger: withFields({}), lines };
}
