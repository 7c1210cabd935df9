import { spawn } from 'node:child_process';
import { eventually } from '../../support/eventually.ts';
import { kubectlPath } from '../../support/kubectl.ts';
import { kubeconfig } from './cluster.ts';

/** A port-forward into a cluster, which is opened again when its pod goes. */
export class PortForward {
  readonly #target: readonly string[];
  #child: ReturnType<typeof spawn> | undefined;
  #port = 0;
  #closed = false;

  private constructor(target: readonly string[]) {
    this.#target = target;
  }

  /** @param target `service/NAME` or `pod/NAME`. */
  static async open(namespace: string, target: string, port: number): Promise<PortForward> {
    const forward = new PortForward(['--namespace', namespace, 'port-forward', target, `:${port}`]);
    forward.#start();
    await eventually('a port to be forwarded', () => forward.#port > 0);
    return forward;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  close(): void {
    this.#closed = true;
    this.#child?.kill();
  }

  #start(): void {
    // The same port as before: the tests know it already.
    const target =
      this.#port === 0
        ? this.#target
        : this.#target.map((part) => part.replace(/^:/, `${this.#port}:`));
    const child = spawn(kubectlPath(), ['--kubeconfig', kubeconfig, ...target], {
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    this.#child = child;
    child.stdout.on('data', (text: Buffer) => {
      this.#port = Number(/127\.0\.0\.1:(\d+)/.exec(text.toString())?.[1] ?? this.#port);
    });
    child.on('exit', () => {
      if (!this.#closed) setTimeout(() => this.#closed || this.#start(), 200);
    });
  }
}
