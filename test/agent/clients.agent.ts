import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { z } from 'zod';
import { eventually } from '../support/eventually.ts';
import { finish, marker, tool } from '../support/model-server.ts';
import { Agents, hookMs } from './support/agents.ts';

// As a module the published package has no `require`, by which it finds a WebSocket outside of
// browsers: here it gets Node's.
Object.assign(globalThis, { window: { WebSocket } });
const { RemoteConversation, RemoteWorkspace } = await import('@openhands/typescript-client');

const run = promisify(execFile);
let agents: Agents;

beforeAll(async () => {
  agents = await Agents.start();
}, hookMs);
afterAll(() => agents.stopKeyless(), hookMs);

/** The last line that a script prints, which is JSON. */
async function python(file: string, env: Record<string, string>): Promise<unknown> {
  const path = fileURLToPath(new URL(`scripts/${file}`, import.meta.url));
  const { stdout } = await run(process.env['AGENT_PYTHON'] ?? 'python3', [path], {
    env: {
      PATH: process.env['PATH'],
      HOME: agents.folder,
      LITELLM_LOCAL_MODEL_COST_MAP: 'True',
      OPENHANDS_SUPPRESS_BANNER: '1',
      ...env,
    },
    timeout: 400_000,
  });
  return JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as unknown;
}

/** The URL and the keys that a client of an agent needs for a conversation. */
async function accessTo(id: string, sandbox: string) {
  const { conversation_url: url, session_api_key: key } = await agents.up.conversation(id);
  return {
    host: new URL(url ?? '').origin,
    apiKey: key ?? '',
    workingDir: join(await agents.workspace(sandbox), 'project'),
  };
}

describe('published clients of agents, through the proxy', () => {
  it('in TypeScript: a conversation is followed by its WebSocket, gets a message, runs and finishes; commands and files go both ways', async () => {
    agents.model.script('ts', { text: 'Ready.' }, tool('echo typescript > ts.txt'), finish);
    const { id, sandbox } = await agents.begin(`Wait for me. ${marker('ts')}`);
    await agents.reaches(id, { execution_status: 'finished' });
    const workspace = new RemoteWorkspace(await accessTo(id, sandbox));
    const kinds: string[] = [];
    const conversation = new RemoteConversation(
      { kind: 'Agent', llm: { model: 'openai/m' } },
      workspace,
      {
        conversationId: id,
        callback: (event: { kind?: string }) => void kinds.push(event.kind ?? ''),
      },
    );
    try {
      await conversation.start();
      await conversation.startWebSocketClient();
      await eventually('the state to come', () => kinds.includes('ConversationStateUpdateEvent'));
      await conversation.sendMessage('Make a file.');
      await conversation.run();
      await eventually(
        'its events to come',
        () => kinds.includes('ActionEvent') && kinds.includes('ObservationEvent'),
      );
      await agents.reaches(id, { execution_status: 'finished' });
      expect(await agents.file(sandbox, 'ts.txt')).toBe('typescript\n');
      expect(await conversation.getAgentFinalResponse()).toBe('all done');

      expect(await workspace.executeCommand('echo out; exit 3')).toMatchObject({
        exit_code: 3,
        stdout: 'out\n',
      });
      await workspace.fileUpload(
        new Blob(['uploaded']),
        join(workspace.workingDir, 'uploaded.txt'),
      );
      expect(await agents.fileNow(sandbox, 'uploaded.txt')).toBe('uploaded');
    } finally {
      await conversation.close();
    }

    const answer = z
      .object({
        before: z.number(),
        after: z.number(),
        status: z.string(),
        live: z.array(z.string()),
      })
      .parse(await pythonOn(id, sandbox));
    expect(answer.status).toBe('finished');
    expect(answer.before).toBeGreaterThan(5);
    expect(answer.live).toEqual(expect.arrayContaining(['ActionEvent', 'ObservationEvent']));
    expect(await agents.file(sandbox, 'py.txt')).toBe('python\n');
  });

  /** Runs the Python client on the conversation, whose sandbox may still start. */
  const pythonOn = async (id: string, sandbox: string) => {
    agents.model.script('ts', tool('echo python > py.txt'), finish);
    const { host, apiKey, workingDir } = await accessTo(id, sandbox);
    return python('remote_conversation.py', {
      AGENT_URL: host,
      SESSION_KEY: apiKey,
      WORKING_DIR: workingDir,
      CONVERSATION_ID: id,
    });
  };

  it('like the web UI: the key comes in the first message, and ends with a rotation, which the agent does not notice', async () => {
    agents.model.script('ui', { text: 'Ready.' });
    const { id, sandbox } = await agents.begin(`Wait for me. ${marker('ui')}`);
    await agents.reaches(id, { execution_status: 'finished' });
    const { host, apiKey: before } = await accessTo(id, sandbox);
    const follow = (key: string) => {
      const kinds: string[] = [];
      const socket = new WebSocket(
        `${host.replace('http', 'ws')}/sockets/events/${id}?resend_mode=all`,
      );
      const closed = new Promise<number>((resolve) =>
        socket.addEventListener('close', ({ code }) => resolve(code)),
      );
      socket.addEventListener('open', () =>
        socket.send(JSON.stringify({ type: 'auth', session_api_key: key })),
      );
      socket.addEventListener('message', ({ data }) =>
        kinds.push(z.object({ kind: z.string() }).parse(JSON.parse(String(data))).kind),
      );
      return { kinds, closed, socket };
    };
    const first = follow(before);
    await eventually('its events to come', () => first.kinds.includes('MessageEvent'));
    await agents.up.call('POST', `/api/v1/sandboxes/${sandbox}/rotate-key`);
    expect(await first.closed).toBe(4001);
    expect(await follow(before).closed).toBe(4001);
    const { apiKey: after } = await accessTo(id, sandbox);
    const again = follow(after);
    await eventually('its events to come again', () => again.kinds.includes('MessageEvent'));
    again.socket.close();
    const asked = async (key: string) =>
      (await fetch(`${host}/api/conversations/${id}`, { headers: { 'X-Session-API-Key': key } }))
        .status;
    expect([await asked(before), await asked(after)]).toEqual([401, 200]);
    await agents.up.call('DELETE', `/api/v1/app-conversations/${id}`);
  });

  it('in Python: a sandbox is made, used and deleted, with a conversation that the client has made itself', async () => {
    agents.model.script('python', tool('echo python > python.txt'), finish);
    const answer = await python('cloud_workspace.py', {
      BASE_URL: agents.up.url,
      API_KEY: agents.up.key,
      MODEL_URL: agents.model.baseUrl,
      WORKING_DIR: agents.folder,
      MESSAGE: `Make a file. ${marker('python')}`,
    });
    expect(answer).toMatchObject({
      command: 'from the client\n',
      status: 'finished',
      file: 'python\n',
    });
    const { live, stored } = z
      .object({ live: z.array(z.string()), stored: z.array(z.string()) })
      .parse(answer);
    for (const kinds of [live, stored])
      expect(kinds).toEqual(expect.arrayContaining(['ActionEvent', 'ObservationEvent']));
    expect(readFileSync(join(agents.folder, 'python.txt'), 'utf8')).toBe('python\n');
    await eventually(
      'its sandbox to go',
      async () =>
        (await agents.k('get', 'sandboxes', '-o', 'name')).trim().split('\n').length === 1,
    );
  });
});
