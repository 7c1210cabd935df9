import type {
  ProcessExit,
  ProcessRequest,
  ProcessRunner,
  RunningProcess,
} from '@conversation-operator/local-cluster/kubelet/options';

/** A process under the control of a test. By default it ignores SIGTERM and dies of SIGKILL. */
export class FakeProcess implements RunningProcess {
  readonly request: ProcessRequest;
  readonly exited: Promise<ProcessExit>;
  readonly signals: ('SIGTERM' | 'SIGKILL')[] = [];
  readonly #end: (exit: ProcessExit) => void;

  constructor(request: ProcessRequest) {
    this.request = request;
    const { promise, resolve } = Promise.withResolvers<ProcessExit>();
    this.exited = promise;
    this.#end = resolve;
  }

  exit(exitCode: number): void {
    this.#end({ exitCode });
  }

  terminate(): void {
    this.signals.push('SIGTERM');
  }

  kill(): void {
    this.signals.push('SIGKILL');
    this.exit(137);
  }
}

export class FakeProcessRunner implements ProcessRunner {
  readonly processes: FakeProcess[] = [];
  /** Set it to make starts fail. */
  fault: (request: ProcessRequest) => Error | undefined = () => undefined;

  get last(): FakeProcess | undefined {
    return this.processes.at(-1);
  }

  start(request: ProcessRequest): Promise<RunningProcess> {
    const error = this.fault(request);
    if (error !== undefined) return Promise.reject(error);
    const process = new FakeProcess(request);
    this.processes.push(process);
    return Promise.resolve(process);
  }

  recover(): Promise<void> {
    return Promise.resolve();
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}
