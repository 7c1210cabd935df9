import { spawn } from 'node:child_process';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { eventually } from '../support/eventually.ts';
import { Installation, saying } from '../support/installation.ts';
import { kubectl } from '../support/kubectl.ts';

let up: Installation;
const k = (args: string, input?: string) => kubectl(up.kubeconfig, args.split(' '), input);

beforeAll(async () => {
  up = await Installation.start();
});
afterAll(async () => {
  const { pid } = up;
  const agents = up.agentProcesses();
  expect(await up.stop()).toBe(0);
  expect([pid, ...agents].filter((id) => existsSync(`/proc/${id}`))).toEqual([]);
});

/** A start that has become READY, with the ids that its conversation and sandbox then have. */
async function started(text: string, more: object = {}) {
  const { id } = await up.start(text, more);
  const task = await up.over(id);
  expect(task).toMatchObject({ status: 'READY', error: null });
  return { task, id: task.app_conversation_id ?? '', sandbox: task.sandbox_id ?? '' };
}

describe('a conversation', () => {
  it('starts, works, pauses, resumes and is deleted with everything that belongs to it', async () => {
    const { task, id, sandbox } = await started(
      'Make a file:\n```sh\necho kept > kept.txt && cat kept.txt\n```',
    );
    expect(task).toMatchObject({ created_by_user_id: 'local' });
    await up.reaches(id, {
      execution_status: 'finished',
      sandbox_status: 'RUNNING',
      sandbox_id: sandbox,
    });
    expect(up.agentProcesses()).not.toEqual([]);
    const read = async (path: string) =>
      (await up.call('GET', `/api/v1/app-conversations/${path}`)).body;
    const [record] = (await read(`?ids=${id}`)) as { workspace: { working_dir: string } }[];
    const folder = encodeURIComponent(record?.workspace.working_dir ?? '');
    expect(await read(`${id}/files?path=${folder}`)).toEqual(['kept.txt']);
    expect(await read(`${id}/file?file_path=${folder}/kept.txt`)).toBe('kept\n');
    expect(await read(`${id}/git/changes?path=${folder}`)).toEqual([]);

    expect((await up.call('POST', `/api/v1/sandboxes/${sandbox}/pause`)).body).toEqual({
      success: true,
    });
    expect(await up.reaches(id, { sandbox_status: 'PAUSED' })).toMatchObject({
      sandbox_status_reason: 'user',
      execution_status: null,
    });
    await eventually('its pod to go', async () => (await k(`get pod ${sandbox}`)).code !== 0);
    expect((await k(`get pvc ${sandbox} -o jsonpath={.status.phase}`)).stdout).toBe('Bound');

    expect((await up.call('POST', `/api/v1/sandboxes/${sandbox}/resume`)).body).toEqual({
      success: true,
    });
    await up.reaches(id, { sandbox_status: 'RUNNING' });
    await up.reaches(id, { execution_status: 'finished' });
    const volume = (await k(`get pvc ${sandbox} -o jsonpath={.metadata.uid}`)).stdout;
    expect(
      readFileSync(join(up.dataDir, 'node', 'volumes', volume, 'project', 'kept.txt'), 'utf8'),
    ).toBe('kept\n');

    expect((await up.call('DELETE', `/api/v1/app-conversations/${id}`)).body).toEqual({
      success: true,
    });
    await eventually('everything to be gone', async () => {
      const { stdout: left } = await k('get conversations,sandboxes,pods,pvc -o name');
      return !left.includes(id) && !left.includes(sandbox) && up.agentProcesses().length === 0;
    });
    await eventually(
      'its files to be gone',
      () => !readdirSync(join(up.dataDir, 'node', 'volumes')).includes(volume),
    );
    expect((await up.call('GET', `/api/v1/app-conversations?ids=${id}`)).body).toEqual([]);
  });

  it('pauses by kubectl scale as by REST, and is MISSING once its sandbox is deleted', async () => {
    const { id, sandbox } = await started('Nothing to do.');
    expect((await k(`scale sandbox ${sandbox} --replicas=0`)).stdout).toContain('scaled');
    expect(await up.reaches(id, { sandbox_status: 'PAUSED' })).toMatchObject({
      sandbox_status_reason: 'user',
    });
    expect((await k(`scale sbx/${sandbox} --replicas=1`)).code).toBe(0);
    await up.reaches(id, { sandbox_status: 'RUNNING' });
    expect((await k(`delete sandbox ${sandbox}`)).code).toBe(0);
    expect(await up.reaches(id, { sandbox_status: 'MISSING' })).toMatchObject({
      execution_status: null,
    });
    await eventually('kubectl says so', async () =>
      (await k(`get conv ${id}`)).stdout.includes('MISSING'),
    );
    expect((await up.call('POST', `/api/v1/sandboxes/${sandbox}/resume`)).status).toBe(404);
    await up.call('DELETE', `/api/v1/app-conversations/${id}`);
  });

  it('keeps a run that its owner has stopped until a request to continue', async () => {
    const { id, sandbox } = await started(
      '```sh\necho begun; sleep 600\n```\n```sh\necho after > after.txt\n```',
    );
    await up.reaches(id, { execution_status: 'running' });
    await up.call('POST', `/api/v1/sandboxes/${sandbox}/pause`);
    expect(await up.reaches(id, { sandbox_status: 'PAUSED' })).toMatchObject({
      execution_status: 'paused',
    });
    await eventually('its pod to go', async () => (await k(`get pod ${sandbox}`)).code !== 0);
    await up.call('POST', `/api/v1/sandboxes/${sandbox}/resume`);
    await up.reaches(id, { sandbox_status: 'RUNNING' });
    expect(await up.reaches(id, { execution_status: 'paused' })).toMatchObject({
      sandbox_status: 'RUNNING',
    });
    await up.call('DELETE', `/api/v1/app-conversations/${id}`);
  });

  it('stops a run also when its sandbox is resumed at once, as the official web UI does, and resumes it when the agent is asked to', async () => {
    const { id, sandbox } = await started(
      '```sh\necho begun; sleep 600\n```\n```sh\necho after > after.txt\n```',
    );
    const { conversation_url: url, session_api_key: sessionKey } = await up.reaches(id, {
      execution_status: 'running',
    });
    await up.call('POST', `/api/v1/sandboxes/${sandbox}/pause`);
    await up.call('POST', `/api/v1/sandboxes/${sandbox}/resume`);
    expect(
      await up.reaches(id, { execution_status: 'paused', sandbox_status: 'RUNNING' }),
    ).toMatchObject({ conversation_url: url });
    const run = await fetch(`${String(url)}/run`, {
      method: 'POST',
      headers: { 'X-Session-API-Key': String(sessionKey) },
    });
    expect(run.status).toBe(200);
    await up.reaches(id, { execution_status: 'finished' });
    await up.call('DELETE', `/api/v1/app-conversations/${id}`);
  });

  it('joins a sandbox that is paused, which then resumes, and leaves it there when it is deleted', async () => {
    const { body } = await up.call('POST', '/api/v1/sandboxes');
    const { id: sandbox } = z.object({ id: z.string() }).parse(body);
    await eventually(
      'RUNNING',
      async () =>
        (await k(`get sandbox ${sandbox} -o jsonpath={.status.phase}`)).stdout === 'RUNNING',
    );
    await up.call('POST', `/api/v1/sandboxes/${sandbox}/pause`);
    const first = await started('First.', { sandbox_id: sandbox });
    const second = await started('Second.', { sandbox_id: sandbox });
    expect([first.sandbox, second.sandbox]).toEqual([sandbox, sandbox]);
    for (const { id } of [first, second])
      await up.call('DELETE', `/api/v1/app-conversations/${id}`);
    expect((await k(`get sandbox ${sandbox} -o jsonpath={.status.phase}`)).stdout).toBe('RUNNING');
    expect((await up.call('DELETE', `/api/v1/sandboxes/${sandbox}`)).body).toEqual({
      success: true,
    });
  });

  it('resumes by itself when its pod is lost', async () => {
    const { id, sandbox } = await started(
      '```sh\necho begun; sleep 600\n```\n```sh\necho after > after.txt\n```',
    );
    await up.reaches(id, { execution_status: 'running' });
    expect((await k(`delete pod ${sandbox} --wait=false`)).code).toBe(0);
    await eventually(
      'another pod',
      async () =>
        (await k(`get sandbox ${sandbox} -o jsonpath={.status.phase}`)).stdout !== 'RUNNING',
    );
    await up.reaches(id, { sandbox_status: 'RUNNING' });
    // The other block has run; the lost one is not repeated.
    await up.reaches(id, { execution_status: 'error' });
    await up.call('DELETE', `/api/v1/app-conversations/${id}`);
  });
});

describe('a streamed start', () => {
  const stream = async (body: object) => {
    const begun = performance.now();
    const response = await fetch(`${up.url}/api/v1/app-conversations/stream-start`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${up.key}`, 'Content-Type': 'application/json' },
      body: JSON.stringify(body),
    });
    return { response, begun };
  };

  it('is a JSON array of each status once, in order, the last one READY', async () => {
    const { response } = await stream(saying('Hello.'));
    const elements = JSON.parse(await response.text()) as {
      status: string;
      id: string;
      app_conversation_id: string | null;
      created_at: string;
    }[];
    expect(elements.map(({ status }) => status)).toEqual([
      'WORKING',
      'WAITING_FOR_SANDBOX',
      'PREPARING_REPOSITORY',
      'SETTING_UP_SKILLS',
      'READY',
    ]);
    expect(new Set(elements.map(({ id }) => id)).size).toBe(1);
    expect(elements.map(({ app_conversation_id: id }) => id === null)).toEqual([
      true,
      true,
      true,
      true,
      false,
    ]);
  });

  it('continues when its client leaves', async () => {
    const { response } = await stream(saying('Hello.'));
    const reader = response.body?.getReader();
    const read = await reader?.read();
    const first = Buffer.from(read?.value ?? []).toString();
    await reader?.cancel();
    const id = /"id":"([0-9a-f]{32})"/.exec(first)?.[1] ?? '';
    expect(await up.over(id)).toMatchObject({ status: 'READY' });
  });
});

describe('what kubectl applies', () => {
  const manifest = (kind: string, name: string, spec: object) =>
    JSON.stringify({
      apiVersion: 'conversation-operator.dev/v1alpha1',
      kind,
      metadata: { name },
      spec,
    });

  it('is a conversation like any other', async () => {
    const spec = {
      owner: 'local',
      title: 'By hand',
      initialMessage: { content: [{ type: 'text', text: '```sh\npwd\n```' }] },
    };
    expect((await k('apply -f -', manifest('Conversation', 'by-hand', spec))).stdout).toContain(
      'created',
    );
    expect(
      (await k('wait --for=jsonpath={.status.start.status}=READY conv/by-hand --timeout=15s')).code,
    ).toBe(0);
    expect(
      (await k('wait --for=jsonpath={.status.executionStatus}=finished conv/by-hand --timeout=15s'))
        .code,
    ).toBe(0);
    const { body } = await up.call(
      'GET',
      '/api/v1/app-conversations/search?title__contains=By%20hand',
    );
    expect(body).toMatchObject({
      items: [{ title: 'By hand', sandbox_status: 'RUNNING' }],
      next_page_id: null,
    });
    expect((await k('delete conv by-hand')).code).toBe(0);
  });

  it.each([
    ['a wrong type', { owner: 'local', title: 7 }, 'spec.title'],
    ['a missing field', { title: 'x' }, 'spec.owner'],
    ['an unknown field', { owner: 'local', titel: 'x' }, 'spec.titel'],
    [
      'an empty text',
      { owner: 'local', initialMessage: { content: [{ type: 'text', text: '' }] } },
      'spec.initialMessage.content[0]',
    ],
  ])('is refused with the path of the field: %s', async (_sentence, spec, path) => {
    const { code, stderr } = await k('apply -f -', manifest('Conversation', 'wrong', spec));
    expect(code).not.toBe(0);
    expect(stderr).toContain(path);
  });

  it('is refused when it changes what is immutable', async () => {
    await k('apply -f -', manifest('Sandbox', 'fixed', { owner: 'local', replicas: 0 }));
    const { code, stderr } = await k(
      'apply -f -',
      manifest('Sandbox', 'fixed', { owner: 'other', replicas: 0 }),
    );
    expect(code).not.toBe(0);
    expect(stderr).toContain('owner is immutable');
    await k('delete sandbox fixed');
  });

  it('ends in ERROR with a reason when it is impossible', async () => {
    await k(
      'apply -f -',
      manifest('Conversation', 'impossible', { owner: 'local', templateName: 'none' }),
    );
    await k('wait --for=jsonpath={.status.start.status}=ERROR conv/impossible --timeout=15s');
    const { stdout } = await k(
      'get conv impossible -o jsonpath={.status.start.errorCode}:{.status.start.error}:{.status.sandboxStatus}',
    );
    expect(stdout).toBe('TemplateNotFound:There is no sandbox template none.:ERROR');
    await k('delete conv impossible');
  });

  it('ends in ERROR when its image is not known', async () => {
    await k(
      'apply -f -',
      manifest('SandboxTemplate', 'nowhere', {
        podTemplate: { spec: { containers: [{ name: 'agent', image: 'no/such:1' }] } },
      }),
    );
    const { id } = await up.start('Hello.', { sandbox_spec_id: 'nowhere' });
    expect(await up.over(id)).toMatchObject({
      status: 'ERROR',
      error: "The image no/such:1 can't be pulled.",
      app_conversation_id: null,
    });
    await k('delete sbt nowhere');
  });
});

describe('the legacy interface', () => {
  it('starts a conversation, and says that it is going away', async () => {
    const { status, body, headers } = await up.call('POST', '/api/conversations', {
      initial_user_msg: 'Hello.',
    });
    expect(status).toBe(200);
    expect(body).toMatchObject({ status: 'ok', conversation_status: 'STARTING' });
    expect(headers.get('sunset')).toBe('Wed, 01 Apr 2026 00:00:00 GMT');
    const { conversation_id: id } = z.object({ conversation_id: z.string() }).parse(body);
    await up.reaches(id, { sandbox_status: 'RUNNING' });
  });
});

describe('the line that is printed at the start', () => {
  it('works when it is pasted', async () => {
    const line = up.output.split('\n').find((text) => text.startsWith('curl ')) ?? '';
    const output = await new Promise<string>((resolve) => {
      const shell = spawn('/bin/sh', ['-c', line]);
      let text = '';
      shell.stdout.on('data', (chunk: Buffer) => (text += chunk.toString()));
      shell.on('close', () => resolve(text));
    });
    expect(JSON.parse(output)).toMatchObject({ status: 'WORKING' });
  });
});

describe('manifests/examples', () => {
  it('are accepted, and run', async () => {
    const folder = fileURLToPath(new URL('../../manifests/examples', import.meta.url));
    expect(await k(`apply -f ${folder}`)).toMatchObject({ code: 0, stderr: '' });
    expect(
      (await k('wait --for=jsonpath={.status.executionStatus}=finished conv/hello --timeout=15s'))
        .code,
    ).toBe(0);
    expect((await k('wait --for=condition=Ready sandbox/scratch --timeout=15s')).code).toBe(0);
    expect((await k('wait --for=condition=Valid sandboxtemplate/large --timeout=15s')).code).toBe(
      0,
    );
    expect((await k(`delete -f ${folder}`)).code).toBe(0);
  });
});
