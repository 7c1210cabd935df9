import { PassThrough } from 'node:stream';
import { createLogger, type LoggerOptions } from '../../../src/observability/logger.ts';

function logging(options: Pick<LoggerOptions, 'level' | 'format'>) {
  const stream = new PassThrough();
  const logger = createLogger({ ...options, stream });
  return {
    logger,
    lines: () => (stream.read() as Buffer | null)?.toString().trimEnd().split('\n') ?? [],
  };
}

describe('a logger', () => {
  it('writes one JSON object a line, with the time, level and message first', () => {
    const { logger, lines } = logging({ level: 'info', format: 'json' });
    logger.child({ component: 'gateway' }).info('Request', { status: 200 });
    const [line = ''] = lines();
    expect(Object.keys(JSON.parse(line) as object)).toEqual([
      'timestamp',
      'level',
      'message',
      'component',
      'status',
    ]);
  });

  it('writes an error with its stack and its causes', () => {
    const { logger, lines } = logging({ level: 'info', format: 'json' });
    logger.error('Failed', { error: new Error('outer', { cause: new TypeError('inner') }) });
    expect(JSON.parse(lines()[0] ?? '')).toMatchObject({
      error: {
        name: 'Error',
        message: 'outer',
        stack: expect.stringContaining('logger.test') as string,
        cause: { name: 'TypeError', message: 'inner' },
      },
    });
  });

  it('writes fields that are there for people, and leaves out what is undefined', () => {
    const { logger, lines } = logging({ level: 'debug', format: 'pretty' });
    logger.debug('Changed', { phase: 'RUNNING', code: undefined, count: 2 });
    expect(lines()[0]).toMatch(/^\d\d:\d\d:\d\d\.\d{3} debug Changed {2}phase=RUNNING count=2$/);
  });

  it('says and does nothing below its level', () => {
    const { logger, lines } = logging({ level: 'warn', format: 'json' });
    logger.info('Quiet');
    expect(lines()).toEqual([]);
    expect([logger.enabled('warn'), logger.enabled('info')]).toEqual([true, false]);
  });
});
