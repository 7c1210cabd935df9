import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SandboxKeys } from '../../../src/agent/keys.ts';
import { mountedMasterKeys } from '../../../src/commands/credential-files.ts';
import { recordingLogger } from '../../support/recording-logger.ts';
import { VirtualClock } from '../../support/virtual-clock.ts';

const [first, second, third] = ['1'.repeat(32), '2'.repeat(32), '3'.repeat(32)];
const idOf = (key: string) => new SandboxKeys([Buffer.from(key)]).currentKeyId;

describe('mounted master keys', () => {
  let folder: string;
  let files: readonly [string, string];
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'master-keys-'));
    files = [join(folder, 'current'), join(folder, 'earlier')];
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const write = (...keys: readonly string[]) => {
    for (const [index, key] of keys.entries()) writeFileSync(files[index] ?? '', key);
  };
  /** The keys of a process that starts with these ones, and what it has after a change. */
  function mounted(...given: readonly string[]) {
    write(...given);
    const clock = new VirtualClock();
    const { logger, lines } = recordingLogger();
    const { keys, close } = mountedMasterKeys({
      files: files.slice(0, given.length),
      logger,
      clock,
    });
    const next = async () => {
      await clock.advance(10_000);
      expect(keys.currentKeyId).toBe([...keys.sealKeys().keys()][0]);
      return [...keys.sealKeys().keys()];
    };
    return { lines, next, close };
  }

  it('are read again each time that their file changes', async () => {
    const { lines, next } = mounted(first);
    expect(await next()).toEqual([idOf(first)]);
    for (const key of [second, third, first]) {
      write(key);
      expect(await next()).toEqual([idOf(key)]);
      expect(await next()).toEqual([idOf(key)]);
    }
    expect(lines).toHaveLength(3);
  });

  it.each<[string, readonly [string, string]]>([
    ['the earlier one alone is another', [first, third]],
    ['the current one alone is another', [third, second]],
    ['they change places', [second, first]],
  ])('are read again when %s', async (_case, wanted) => {
    const { next } = mounted(first, second);
    write(...wanted);
    expect(await next()).toEqual(wanted.map(idOf));
  });

  it.each<[string, () => void, RegExp]>([
    ['gone', () => rmSync(files[0]), /^error: .*ENOENT/],
    ['too short', () => write('short'), /^error: .*32 bytes/],
  ])(
    'stay as they are while their file is %s, which is logged once each time',
    async (_case, spoil, problem) => {
      const { lines, next } = mounted(first);
      const logged = () =>
        lines.splice(0).map(({ level, fields }) => `${level}: ${JSON.stringify(fields)}`);
      for (const key of [second, third]) {
        const present = await next();
        spoil();
        expect([await next(), await next()]).toEqual([present, present]);
        expect(logged()).toEqual([expect.stringMatching(problem)]);
        write(key);
        expect(await next()).toEqual([idOf(key)]);
        expect(logged()).toEqual([expect.stringMatching(/^info: /)]);
      }
    },
  );

  it('are not read again once they are closed', async () => {
    const { next, close } = mounted(first);
    close();
    write(second);
    expect(await next()).toEqual([idOf(first)]);
  });

  it('have to be there at the start', () => {
    const { logger } = recordingLogger();
    expect(() =>
      mountedMasterKeys({ files: [files[0]], logger, clock: new VirtualClock() }),
    ).toThrow(/MASTER_KEY_FILES: .*current can't be read/);
  });
});
