import type { IncomingMessage } from 'node:http';
import { Upstream } from '@conversation-operator/http/proxy/upstream';
import { defaultForwardingLimits } from '@conversation-operator/http/proxy/tunnel';
import { Addressing } from '../../../../src/gateway/proxy/addressing.ts';
import { forwardingOf } from '../../../../src/gateway/proxy/proxy-http.ts';

describe('an agent', () => {
  const target = { host: '10.0.0.9', port: 8000, authority: '10.0.0.9:8000' };
  const agent = {
    upstream: new Upstream({ target, limits: defaultForwardingLimits, connections: 1 }),
    sessionKey: 'key-of-the-agent',
    identity: 'pod-1',
    owner: 'alice',
  };
  const headersFor = (hasKey: boolean) => {
    const rawHeaders = [
      'X-Session-API-Key',
      'key-of-the-client',
      'X-Init-API-Key',
      'init',
      'A',
      'b',
    ];
    const access = {
      addressing: new Addressing({ publicUrl: () => 'https://gateway.example' }),
      clientAddress: () => '198.51.100.7',
    };
    const address = {
      sandbox: 'sbx-1',
      path: '/',
      prefix: '/sandboxes/sbx-1/AGENT_SERVER',
    } as const;
    const request = { headers: {}, rawHeaders } as unknown as IncomingMessage;
    const { headers } = forwardingOf(access, request, { address, agent, requestId: 'r-1', hasKey });
    return headers;
  };

  it('gets its own key in place of the key of the client', () => {
    const headers = headersFor(true);
    expect(headers).toEqual(expect.arrayContaining(['x-session-api-key', 'key-of-the-agent']));
    expect(headers.join()).not.toMatch(/key-of-the-client|init/);
  });

  it('gets no key for a client without a right one', () => {
    expect(headersFor(false).join()).not.toMatch(/key|init/);
  });
});
