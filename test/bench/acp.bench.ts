import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { setTimeout as sleep } from 'node:timers/promises';
import { referenceAgentImage } from '../../src/commands/initial-objects.ts';
import { apiVersion } from '../../src/resources/group.ts';
import { eventually } from '../support/eventually.ts';
import { freePort } from '../support/free-port.ts';
import { Installation } from '../support/installation.ts';
import { kubectl } from '../support/kubectl.ts';
import { percentile, report } from './figure.ts';

/**
 * The cost of the bridge between the API and an agent of the Agent Client Protocol: its memory, its
 * time in a turn, and the CPU time of the whole service while agents write. The agent does nothing
 * but write, so that the cost is the service's own. Needs `make build`.
 */
const chatty = fileURLToPath(new URL('chatty-agent.ts', import.meta.url));
const bridge = fileURLToPath(new URL('../../dist/reference-agent.js', import.meta.url));
const turns = 200;
const agents = 10;
const perSecond = 50;
const measureMs = 20_000;

const statOf = (pid: number): readonly string[] =>
  readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /, '')
    .split(' ');
/** Seconds of CPU time of a process. The clock of Linux has 100 ticks a second. */
const cpuSeconds = (pid: number): number => {
  const fields = statOf(pid);
  return (Number(fields[11]) + Number(fields[12])) / 100;
};
const pssMiB = (pid: number): number =>
  Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1]) / 1024;

/** Processes below one, by their command lines. */
function descendants(root: number): readonly { readonly pid: number; readonly line: string }[] {
  const parents = new Map<number, number>();
  for (const name of readdirSync('/proc').filter((each) => /^\d+$/.test(each))) {
    try {
      parents.set(Number(name), Number(statOf(Number(name))[1]));
    } catch {
      // The process has ended meanwhile.
    }
  }
  const isBelow = (pid: number): boolean => {
    const parent = parents.get(pid);
    return parent !== undefined && (parent === root || isBelow(parent));
  };
  return [...parents.keys()]
    .filter(isBelow)
    .map((pid) => ({
      pid,
      line: readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' '),
    }));
}

/** One bridge alone: a turn of the agent with the bridge, and the bridge's memory. */
async function measureTurns(folder: string): Promise<void> {
  const port = await freePort();
  const key = 'bench';
  const child: ChildProcess = spawn(process.execPath, [bridge, '--port', String(port)], {
    stdio: 'ignore',
    env: {
      PATH: process.env['PATH'],
      HOME: folder,
      OH_SESSION_API_KEYS_0: key,
      OH_SECRET_KEY: key,
      OH_CONVERSATIONS_PATH: join(folder, 'conversations'),
      ACP_COMMAND: JSON.stringify([process.execPath, chatty]),
    },
  });
  const base = `http://127.0.0.1:${port}`;
  const call = async (method: string, path: string, body?: object) => {
    const response = await fetch(`${base}${path}`, {
      method,
      headers: { 'x-session-api-key': key, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    if (!response.ok) throw new Error(`${response.status}: ${await response.text()}`);
    return (await response.json()) as { readonly execution_status?: string };
  };
  const id = '00000000-0000-4000-8000-000000000001';
  const own = `/api/conversations/${id}`;
  const isFinished = async () => (await call('GET', own)).execution_status === 'finished';
  const say = async (text: string): Promise<number> => {
    const began = performance.now();
    await call('POST', `${own}/events`, {
      role: 'user',
      content: [{ type: 'text', text }],
      run: true,
    });
    while (!(await isFinished())) await sleep(1);
    return performance.now() - began;
  };
  try {
    await eventually('the bridge to answer', () => fetch(`${base}/ready`).then(({ ok }) => ok));
    await call('POST', '/api/conversations', {
      conversation_id: id,
      workspace: { working_dir: folder },
      agent_settings: {},
    });
    await say('1 0');
    await sleep(3_000);
    report({
      what: 'bridge, idle with its agent started',
      value: pssMiB(child.pid ?? 0),
      unit: 'MiB',
      target: { atMost: 60 },
    });
    const times: number[] = [];
    for (let turn = 0; turn < turns; turn++) times.push(await say('1 0'));
    for (const [name, share] of [
      ['half of them', 0.5],
      ['99 of 100', 0.99],
    ] as const)
      report({
        what: `bridge, turn of an agent that answers at once, ${name}`,
        value: percentile(times, share),
        unit: 'ms',
        ...(share === 0.5 ? { target: { atMost: 30 } } : {}),
      });
  } finally {
    child.kill('SIGKILL');
  }
}

/** Agents that write all the time, behind the whole service in one process. */
async function measureWriting(): Promise<void> {
  const up = await Installation.start();
  try {
    const template = {
      apiVersion,
      kind: 'SandboxTemplate',
      metadata: { name: 'chatty' },
      spec: {
        podTemplate: { spec: { containers: [{ name: 'agent', image: referenceAgentImage }] } },
        agent: { kind: 'acp', acp: { command: [process.execPath, chatty] } },
      },
    };
    const applied = await kubectl(up.kubeconfig, ['apply', '-f', '-'], JSON.stringify(template));
    if (applied.code !== 0) throw new Error(applied.stderr);
    const pieces = Math.ceil((measureMs + 60_000) / (1000 / perSecond));
    const ids: string[] = [];
    for (let agent = 0; agent < agents; agent++) {
      const { id } = await up.start(`${pieces} ${1000 / perSecond}`, { sandbox_spec_id: 'chatty' });
      const task = await up.over(id, 60_000);
      ids.push(task.app_conversation_id ?? '');
    }
    for (const id of ids) await up.reaches(id, { execution_status: 'running' }, 60_000);
    await sleep(5_000);
    const bridges = descendants(up.pid).filter(({ line }) => line.includes('reference-agent'));
    if (bridges.length !== agents) throw new Error(`there are ${bridges.length} bridges`);
    const cpu = () => ({
      service: cpuSeconds(up.pid),
      bridges: bridges.reduce((sum, { pid }) => sum + cpuSeconds(pid), 0),
    });
    const before = cpu();
    const began = performance.now();
    await sleep(measureMs);
    const seconds = (performance.now() - began) / 1000;
    const after = cpu();
    const share = (used: number) => (100 * used) / seconds;
    const bridgesShare = share(after.bridges - before.bridges);
    const serviceShare = share(after.service - before.service);
    const what = `${agents} agents, ${perSecond} pieces a second each`;
    report({ what: `${what}: bridges`, value: bridgesShare, unit: '% of a core' });
    report({
      what: `${what}: operator, gateway and control plane`,
      value: serviceShare,
      unit: '% of a core',
    });
    report({
      what: `${what}: together`,
      value: bridgesShare + serviceShare,
      unit: '% of a core',
      target: { atMost: 20 },
    });
  } finally {
    await up.stop();
  }
}

const folder = mkdtempSync(join(tmpdir(), 'bench-acp-'));
try {
  await measureTurns(folder);
  await measureWriting();
} finally {
  rmSync(folder, { recursive: true, force: true });
}
