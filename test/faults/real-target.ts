import { spawn } from 'node:child_process';
import { openSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { systemClock } from '@conversation-operator/base/clock';
import { ApiError, TransportError } from '@conversation-operator/kube/errors';
import { loadConnection } from '@conversation-operator/kube/kubeconfig';
import { Transport, type Connection } from '@conversation-operator/kube/transport';
import { silentLogger } from '@conversation-operator/base/logger';
import { crdOf, definitions } from '../../src/resources/crd.ts';
import type { Target } from './target.ts';

/**
 * The cluster of a kubeconfig. Where test/cluster has made it (its state folder holds the
 * kubeconfig and the files of its processes' ids), the API server and etcd can be killed and
 * started again; others only get requests.
 */
export async function startRealTarget(kubeconfig: string): Promise<Target> {
  const { connection } = await loadConnection({ kubeconfig });
  const transport = new Transport({
    connection,
    clock: systemClock,
    random: Math.random,
    logger: silentLogger,
  });
  const state = dirname(kubeconfig);
  await installCrds(transport);
  const answers = () => untilAnswering(connection);
  const restart = (name: string) => async () => {
    await respawn(state, name);
    await answers();
  };
  return {
    name: `the API server at ${connection.server}`,
    connection,
    restarts: {
      ...(isOurs(state, 'apiserver') ? { 'api-server': restart('apiserver') } : {}),
      ...(isOurs(state, 'etcd') ? { etcd: restart('etcd') } : {}),
    },
    close: () => transport.close(),
  };
}

async function installCrds(transport: Transport): Promise<void> {
  const folder = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
  for (const definition of definitions) {
    const body = crdOf(definition);
    const path = `${folder}/${body.metadata.name}`;
    const common = { verb: 'patch', resource: 'customresourcedefinitions' } as const;
    await transport.call({
      ...common,
      method: 'PATCH',
      path: `${path}?fieldManager=test&force=true`,
      body,
      contentType: 'application/apply-patch+yaml',
    });
    for (let tries = 0; ; tries++) {
      const text = JSON.stringify(
        await transport.call({ ...common, verb: 'get', method: 'GET', path }),
      );
      if (
        /"type":"Established","status":"True"|"status":"True","type":"Established"/.test(
          text.replace(/"(lastTransitionTime|reason|message)":"[^"]*",?/g, ''),
        )
      )
        break;
      if (tries === 100) throw new Error(`${body.metadata.name} was not established`);
      await wait(100);
    }
  }
}

const pidFile = (state: string, name: string): string => join(state, `${name}.pid`);

/** The command line behind a file NAME.pid, if that process belongs to this folder. */
function commandOf(
  state: string,
  name: string,
): { readonly pid: number; readonly command: readonly string[] } | undefined {
  try {
    const pid = Number(readFileSync(pidFile(state, name), 'utf8'));
    const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').slice(0, -1);
    return command.some((word) => word.includes(state)) ? { pid, command } : undefined;
  } catch {
    return undefined;
  }
}

const isOurs = (state: string, name: string): boolean => commandOf(state, name) !== undefined;

/**
 * Its ports are free: a process that is being torn down has no command line any more, but has them
 * still.
 */
function hasEnded(pid: number): boolean {
  try {
    return / [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/^.*\)/, ''));
  } catch {
    return true;
  }
}

/** Kills a process of the cluster and starts the same command again. */
async function respawn(state: string, name: string): Promise<void> {
  const known = commandOf(state, name);
  const [program, ...args] = known?.command ?? [];
  if (known === undefined || program === undefined) throw new Error(`${name} does not run`);
  process.kill(known.pid, 'SIGKILL');
  while (!hasEnded(known.pid)) await wait(10);
  const log = openSync(join(state, 'logs', `${name}.log`), 'a');
  const child = spawn(program, args, { detached: true, stdio: ['ignore', log, log], cwd: state });
  child.unref();
  writeFileSync(pidFile(state, name), `${child.pid ?? 0}\n`);
}

/** Not only that it listens: it is ready, and it writes. */
async function untilAnswering(connection: Connection): Promise<void> {
  const transport = new Transport({
    connection,
    clock: systemClock,
    random: Math.random,
    logger: silentLogger,
    deadlineMs: 2000,
  });
  const deadline = performance.now() + 120_000;
  try {
    for (;;) {
      try {
        await transport.call({
          verb: 'create',
          resource: 'selfsubjectaccessreviews',
          method: 'POST',
          path: '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews',
          body: { spec: { resourceAttributes: { resource: 'pods', verb: 'list' } } },
        });
        await transport.call({
          verb: 'list',
          resource: 'namespaces',
          method: 'GET',
          path: '/api/v1/namespaces?limit=1',
        });
        return;
      } catch (error) {
        if (
          !(error instanceof ApiError || error instanceof TransportError) ||
          performance.now() > deadline
        )
          throw error;
        await wait(100);
      }
    }
  } finally {
    await transport.close();
  }
}
