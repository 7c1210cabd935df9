import { execFile } from 'node:child_process';
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { auditFile, checkAuditFile } from '../../../src/observability/audit-file.ts';
import { createMetrics } from '../../../src/observability/metrics.ts';
import { noonMs } from '../../support/builders.ts';
import { recordingLogger } from '../../support/recording-logger.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

let root: string;
let folder: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'audit-'));
  folder = join(root, 'volume');
  mkdirSync(folder);
});
afterEach(() => rmSync(root, { recursive: true }));

function setUp(path = join(folder, 'audit.jsonl')) {
  const { logger: fallback, lines } = recordingLogger();
  const metrics = createMetrics();
  const sink = auditFile({ path, clock: new VirtualClock(noonMs), fallback, metrics });
  const failures = async () =>
    (await metrics.auditWriteFailures.get()).values.map(({ value }) => value);
  return { path, lines, failures, write: (n: number) => sink.info('Write', { n }) };
}
const numbersIn = (path: string) =>
  readFileSync(path, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => (JSON.parse(line) as { readonly n: number }).n);

describe('the file of the audit log', () => {
  it('gets each line before the call returns, as the log has it, for its user alone', async () => {
    const { path, write, lines, failures } = setUp();
    write(1);
    expect(readFileSync(path, 'utf8')).toBe(
      `{"timestamp":"${new Date(noonMs).toISOString()}","level":"info","message":"Write","component":"audit","n":1}\n`,
    );
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect([lines, await failures()]).toEqual([[], [0]]);
  });

  it('goes on after the lines of before', () => {
    const { path, write } = setUp();
    writeFileSync(path, '{"n":0}\n');
    write(1);
    expect(numbersIn(path)).toEqual([0, 1]);
  });

  it('begins anew where it was renamed', () => {
    const { path, write, lines } = setUp();
    write(1);
    renameSync(path, `${path}.1`);
    write(2);
    write(3);
    expect([numbersIn(`${path}.1`), numbersIn(path), lines]).toEqual([[1], [2, 3], []]);
    expect(statSync(path).mode & 0o777).toBe(0o600);
  });

  it('leaves its lines to the log, with the reason, while its folder is gone', async () => {
    const { path, write, lines, failures } = setUp();
    rmSync(folder, { recursive: true });
    write(1);
    write(2);
    const notWritten = expect.stringContaining('ENOENT') as string;
    expect(lines).toEqual([
      { level: 'info', message: 'Write', fields: { n: 1, notWritten } },
      { level: 'info', message: 'Write', fields: { n: 2, notWritten } },
    ]);
    expect(await failures()).toEqual([2]);
    mkdirSync(folder);
    write(3);
    expect([numbersIn(path), lines.length]).toEqual([[3], 2]);
  });

  it('leaves its lines to the log where the disk is full', async () => {
    const { write, lines, failures } = setUp('/dev/full');
    write(1);
    expect(lines[0]?.fields).toEqual({
      n: 1,
      notWritten: expect.stringContaining('ENOSPC') as string,
    });
    expect(await failures()).toEqual([1]);
  });

  it('begins a line of its own after one that the disk has taken in part', async () => {
    const path = join(folder, 'audit.jsonl');
    const program = join(import.meta.dirname, '../../support/fill-audit-file.ts');
    // The kernel takes 1024 bytes of the file, as a disk does that is full.
    const { stdout } = await promisify(execFile)('bash', [
      '-c',
      'ulimit -f 1 && exec "$0" --disable-warning=ExperimentalWarning "$1" "$2"',
      ...[process.execPath, program, path],
    ]);
    const [begun = '', ...whole] = readFileSync(path, 'utf8').trimEnd().split('\n').slice(-2);
    expect(() => JSON.parse(begun) as unknown).toThrow();
    expect(whole.map((line) => (JSON.parse(line) as { readonly n: number }).n)).toEqual([2]);
    // The line of which the file has a part is whole in the log.
    expect(JSON.parse(stdout)).toMatchObject([{ fields: { n: 1, text: 'x'.repeat(600) } }]);
  });

  it.each<[string, () => string, string]>([
    ['a folder', () => folder, 'EISDIR'],
    ['a folder that is missing', () => join(root, 'none', 'audit.jsonl'), 'ENOENT'],
  ])('is refused at the start: %s', (_what, path, code) => {
    expect(() => checkAuditFile(path())).toThrow(code);
  });

  it('is refused at the start: a pipe that nobody reads', async () => {
    const pipe = join(folder, 'pipe');
    await promisify(execFile)('mkfifo', [pipe]);
    expect(() => checkAuditFile(pipe)).toThrow('ENXIO');
  });
});
