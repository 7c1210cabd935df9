import { needlesOf } from '../src/mask.ts';
import type { McpServer } from '../src/mcp-servers.ts';
import { McpTools } from '../src/mcp-tools.ts';
import { TestMcpServer, type Misbehaviour } from './mcp-server.ts';

const { signal } = new AbortController();
const secret = 'token-of-mcp';

const entry = (name: string, { url, key }: { url: string; key: string }): McpServer => ({
  type: 'http',
  name,
  url,
  headers: [{ name: 'Authorization', value: key }],
});

/** The tools of servers, which are closed at the end. */
const toolsOf = (...servers: readonly McpServer[]) => toolsWithin(60_000, servers);

function toolsWithin(connectTimeoutMs: number, servers: readonly McpServer[]) {
  const tools = new McpTools({
    servers: () => servers,
    needles: () => needlesOf([secret]),
    connectTimeoutMs,
  });
  return {
    call: (name: string, given = {}, by = signal) => tools.call({ name, arguments: given }, by),
    list: () => tools.list(signal),
    [Symbol.dispose]: () => tools.close(),
  };
}

describe('the tools of MCP servers', () => {
  it('are called on the first server that has them, over one connection for each server', async () => {
    await using first = await TestMcpServer.start('first');
    await using second = await TestMcpServer.start('second');
    using tools = toolsOf(entry('one', first), entry('two', second));
    expect(await tools.call('add', { a: 1, b: 2 })).toEqual({ text: '3', isError: false });
    expect(await tools.call('echo', { text: 'x' })).toEqual({ text: 'first: x', isError: false });
    expect(first.methods).toEqual([
      ...['initialize', 'notifications/initialized', 'tools/list', 'tools/call', 'tools/call'],
    ]);
    expect(second.methods).toEqual([]);
  });

  it('are listed once for each name, without the servers that do not answer', async () => {
    await using first = await TestMcpServer.start('first');
    await using second = await TestMcpServer.start('second');
    await using gone = await TestMcpServer.start('gone');
    await gone.close();
    using tools = toolsOf(
      ...[entry('one', first), entry('two', second)],
      entry('three', { url: 'http://127.0.0.1:9/', key: '' }),
    );
    const listed = await tools.list();
    expect(listed.map(({ name }) => name)).toEqual([
      'add',
      'echo',
      'fail',
      'throw',
      'long',
      'wait',
    ]);
    expect(listed[0]).toMatchObject({
      description: 'Tool add',
      inputSchema: { type: 'object', properties: { a: { type: 'number' } } },
    });
    expect((await tools.call('echo', { text: 'x' })).text).toBe('first: x');
  });

  it('fail with a text and without secrets', async () => {
    await using server = await TestMcpServer.start();
    using tools = toolsOf(entry('one', server));
    expect(await tools.call('fail')).toEqual({ text: 'no, Bearer <secret-hidden>', isError: true });
    expect(await tools.call('throw')).toMatchObject({
      text: 'broken, Bearer <secret-hidden>',
      isError: true,
    });
    expect(await tools.call('add', { a: 'x' })).toMatchObject({ isError: true });
    expect(await tools.call('teleport')).toEqual({
      text: 'No MCP server of the conversation has the tool teleport.',
      isError: true,
    });
  });

  it('have a result of at most 30,000 characters', async () => {
    await using server = await TestMcpServer.start();
    using tools = toolsOf(entry('one', server));
    const { text } = await tools.call('long', { characters: 31_000 });
    expect(text.length).toBeLessThanOrEqual(30_000);
    expect(text).toMatch(/x… \(1050 characters omitted\)$/);
    expect((await tools.call('long', { characters: 30_000 })).text).toHaveLength(30_000);
  });

  it.each<[string, Misbehaviour]>([
    ['refuses', 500],
    ['does not accept the headers', 401],
    ['ends the connection', 'reset'],
    ['sends megabytes', 'flood'],
    ['redirects to another server', { location: 'http://127.0.0.1:9/' }],
  ])('are none of a server that %s, and those of the next one', async (_case, misbehaviour) => {
    await using bad = await TestMcpServer.start();
    await using good = await TestMcpServer.start('good');
    bad.misbehaviour = misbehaviour;
    using tools = toolsOf(entry('bad', bad), entry('good', good));
    expect(await tools.call('echo', { text: 'x' })).toEqual({ text: 'good: x', isError: false });
    const { text, isError } = await tools.call('teleport');
    expect(isError).toBe(true);
    expect(text).toBe(
      'No MCP server of the conversation has the tool teleport. These servers do not answer: bad.',
    );
  });

  it('are none of a server that never answers, which is given up', async () => {
    await using bad = await TestMcpServer.start();
    bad.misbehaviour = 'hang';
    using tools = toolsWithin(100, [entry('bad', bad)]);
    expect(await tools.list()).toEqual([]);
    expect((await tools.call('echo')).text).toContain('These servers do not answer: bad.');
  });

  it('fail when the server fails during the call, and are called by a new connection after that', async () => {
    await using server = await TestMcpServer.start();
    using tools = toolsOf(entry('one', server));
    await tools.list();
    server.misbehaviour = 502;
    const { text, isError } = await tools.call('echo', { text: 'x' });
    expect(isError).toBe(true);
    expect(text).toMatch(/^The MCP server one has not answered the call of echo\. /);
    expect(text).not.toContain(secret);
    server.misbehaviour = undefined;
    expect(await tools.call('echo', { text: 'x' })).toMatchObject({ isError: false });
    expect(server.calls).toEqual(['echo']);
  });

  it('are not waited for when a run is interrupted', async () => {
    await using server = await TestMcpServer.start();
    using tools = toolsOf(entry('one', server));
    const abort = new AbortController();
    const calling = tools.call('wait', {}, abort.signal);
    while (server.calls.length === 0) await new Promise(setImmediate);
    abort.abort('interrupt');
    await expect(calling).rejects.toBe('interrupt');
  });

  it('are none without a server over HTTP, and load no client', async () => {
    using tools = toolsOf({ name: 'local', command: '/bin/mcp', args: [], env: [] });
    expect(await tools.list()).toEqual([]);
    expect(await tools.call('add')).toMatchObject({ isError: true });
  });
});
