import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { login } from '../../../src/plugin/login.ts';

it.each([
  ['verification_uri', 'file:///usr/bin/program'],
  ['verification_uri', '--version'],
  ['verification_uri_complete', 'vscode://file/etc/passwd'],
])('does not open a %s that is no page of the web: %s', async (field, address) => {
  const answer = {
    device_code: 'd',
    user_code: 'u',
    expires_in: 0,
    interval: 0,
    verification_uri: 'https://agents.example.com/device',
    [field]: address,
  };
  const gateway = createServer((_request, response) => response.end(JSON.stringify(answer)));
  gateway.listen(0, '127.0.0.1');
  await once(gateway, 'listening');
  try {
    const server = `http://127.0.0.1:${(gateway.address() as AddressInfo).port}`;
    await expect(login({ server, browser: false })).rejects.toThrow(
      'its answer has no code with the address of a page (http or https)',
    );
  } finally {
    gateway.close();
    gateway.closeAllConnections();
  }
});
