import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { SandboxKeys } from '../../../src/agent/keys.ts';
import { mountedMasterKeys } from '../../../src/commands/master-keys.ts';
import { silentLogger } from '@conversation-operator/base/logger';
import { eventually } from '../../support/eventually.ts';

const [first, second] = ['1'.repeat(32), '2'.repeat(32)];
const idOf = (...keys: string[]) =>
  new SandboxKeys(keys.map((key) => Buffer.from(key))).currentKeyId;

describe('mounted master keys', () => {
  let folder: string;
  let file: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'master-keys-'));
    file = join(folder, 'key');
    writeFileSync(file, first);
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  it('are read again when their file changes', async () => {
    const { keys, close } = mountedMasterKeys({
      files: [file],
      logger: silentLogger,
      intervalMs: 5,
    });
    expect(keys.currentKeyId).toBe(idOf(first));
    writeFileSync(file, second);
    await eventually('the new key is in use', () => keys.currentKeyId === idOf(second));
    close();
  });

  it('stay as they are while their file is gone or too short', async () => {
    const problems: string[] = [];
    const logger = {
      ...silentLogger,
      error: (_message: string, fields?: object) => void problems.push(JSON.stringify(fields)),
    };
    const { keys, close } = mountedMasterKeys({ files: [file], logger, intervalMs: 5 });
    rmSync(file);
    await eventually('it is said that the file is gone', () => problems[0]?.includes('ENOENT'));
    writeFileSync(file, 'short');
    await eventually('it is said that the key is too short', () =>
      problems[1]?.includes('32 bytes'),
    );
    expect(keys.currentKeyId).toBe(idOf(first));
    close();
  });

  it('have to be there at the start', () => {
    expect(() =>
      mountedMasterKeys({ files: [join(folder, 'none')], logger: silentLogger }),
    ).toThrow(/MASTER_KEY_FILES: .*none can't be read/);
  });
});
