import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DataFolder, lastPort } from '../../../src/commands/data-folder.ts';

describe('the port of the last time', () => {
  let folder: DataFolder;
  let server: Server;
  let port: number;

  beforeEach(async () => {
    folder = new DataFolder(mkdtempSync(join(tmpdir(), 'last-port-')));
    server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    ({ port } = server.address() as AddressInfo);
  });
  afterEach(() => {
    server.close();
    rmSync(folder.path, { recursive: true });
  });

  it('is taken again where it is free, else any', async () => {
    expect(await lastPort(folder, 'port')).toBe(0);
    folder.write('port', String(port));
    expect(await lastPort(folder, 'port')).toBe(0);
    const closed = once(server, 'close');
    server.close();
    await closed;
    expect(await lastPort(folder, 'port')).toBe(port);
  });

  it.each(['', 'x', '-1', '1.5', '65536', '1e9'])('is any for the text %j', async (text) => {
    folder.write('port', text);
    expect(await lastPort(folder, 'port')).toBe(0);
  });
});
