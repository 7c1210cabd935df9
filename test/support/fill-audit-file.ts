import { truncateSync } from 'node:fs';
import { systemClock } from '@conversation-operator/base/clock';
import { auditFile } from '../../src/observability/audit-file.ts';
import { recordingLogger } from './recording-logger.ts';

/**
 * Writes lines to a file that may have 1024 bytes: one that fits, one of which the kernel takes a
 * part, and, once there is room again, another one. Prints what the log gets.
 */
const [path = ''] = process.argv.slice(2);
// The signal of the limit would end the process, which a full disk does not.
process.on('SIGXFSZ', () => undefined);
const { logger: fallback, lines } = recordingLogger();
const metrics = { auditWriteFailures: { inc: () => undefined } };
const sink = auditFile({ path, clock: systemClock, fallback, metrics });
const text = 'x'.repeat(600);
sink.info('Write', { n: 0, text });
sink.info('Write', { n: 1, text });
// The part that the kernel took stays; the line before it is cleaned away.
truncateSync(path, 900);
sink.info('Write', { n: 2 });
process.stdout.write(JSON.stringify(lines));
