import { spawn, type ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import { sandboxLabel } from '../../../src/resources/sandbox.ts';
import { eventually } from '../../support/eventually.ts';
import { kubectlPath } from '../../support/kubectl.ts';
import { kubeconfig } from './cluster.ts';

const line =
  '{.type} {.object.metadata.name} {.object.metadata.annotations.conversation-operator\\.dev/owner}{"\\n"}';

/** Finds the maximum number of an owner's pods; a pod counts in any phase until it is gone. */
export class AgentWatch {
  readonly #namespace: string;
  readonly #owner: string;
  readonly #present = new Set<string>();
  #child: ChildProcess | undefined;
  #closed = false;
  #maxAtOnce = 0;
  #connected = false;

  private constructor(namespace: string, owner: string) {
    this.#namespace = namespace;
    this.#owner = owner;
  }

  static async start(namespace: string, owner: string): Promise<AgentWatch> {
    const watch = new AgentWatch(namespace, owner);
    watch.#follow();
    await eventually('pods to be watched', () => watch.#connected);
    return watch;
  }

  get maxAtOnce(): number {
    return this.#maxAtOnce;
  }

  stop(): void {
    this.#closed = true;
    this.#child?.kill();
  }

  #follow(): void {
    this.#present.clear();
    const args = [
      'get',
      'pods',
      '-l',
      sandboxLabel,
      '--watch',
      '--output-watch-events',
      '-o',
      `jsonpath=${line}`,
      '-v=6',
    ];
    const child = spawn(
      kubectlPath(),
      ['--kubeconfig', kubeconfig, '--namespace', this.#namespace, ...args],
      { stdio: ['ignore', 'pipe', 'pipe'] },
    );
    this.#child = child;
    createInterface(child.stdout).on('line', (text) => this.#note(text));
    // kubectl writes nothing to standard output as long as no pod exists.
    createInterface(child.stderr).on(
      'line',
      (text) => (this.#connected ||= /watch=true.*200/.test(text)),
    );
    // While the API server is down, again and again.
    child.on('exit', () => {
      if (!this.#closed) setTimeout(() => this.#closed || this.#follow(), 200);
    });
  }

  #note(text: string): void {
    const [type, name = '', owner] = text.split(' ');
    if (owner !== this.#owner) return;
    if (type === 'DELETED') this.#present.delete(name);
    else this.#present.add(name);
    this.#maxAtOnce = Math.max(this.#maxAtOnce, this.#present.size);
  }
}
