import { pods, persistentVolumeClaims, type Pod } from '@conversation-operator/kube/core';
import { sandboxes } from '../../src/resources/sandbox.ts';
import type { KubeObject } from '@conversation-operator/kube/object';
import {
  AgentProcess,
  Volume,
  type AskedQuestion,
  type EndChances,
  type RunInterruption,
  type StoredConversation,
} from './agent-process.ts';
import type { Change, Cluster } from './cluster.ts';
import type { NodeConditions } from './node-conditions.ts';
import type { Random } from './random.ts';
import type { Scheduler } from './scheduler.ts';
import type { Trace } from './trace.ts';

export interface NodeOptions {
  readonly cluster: Cluster;
  readonly scheduler: Scheduler;
  readonly random: Random;
  readonly trace: Trace;
  /** First part of the addresses of pods; default `10.0.0`. */
  readonly network?: string;
  /** How likely each pod has trouble of some kind: 0 for a node where nothing goes wrong. */
  readonly trouble: () => {
    readonly image: number;
    readonly crash: number;
    readonly unschedulable: number;
    readonly slowStop: number;
  };
  /** How long tools run that keep messages waiting; absent: no time. */
  readonly steps?: Random | undefined;
  /** Chooses the ends of runs that do not finish; absent: all runs finish. */
  readonly ends?: Random | undefined;
  /** Which runs never end and report nothing; absent: none. */
  readonly stalls?: Random | undefined;
  readonly endChances?: Partial<EndChances> | undefined;
  /** Number of addresses of pods; default 12. */
  readonly addresses?: number;
  /** Chooses the pods that wait at a scheduling gate while there are gates; absent: none waits. */
  readonly gates?: Random | undefined;
  /** Default: no resource is ever lacking. */
  readonly conditions?: NodeConditions | undefined;
}

interface PodRun {
  readonly sandboxUid: string;
  readonly name: string;
  readonly uid: string;
  readonly address: string;
  /** The pod's own random numbers: one pod more or less changes no other pod. */
  readonly random: Random;
  process: AgentProcess | undefined;
  restarts: number;
  stopping: boolean;
  /** Its pod is taken away, or its node is lost: what ends now does not end by itself. */
  disrupted: boolean;
  noImage: boolean;
}

const actor = 'node';
const graceMs = 10_000;
const pullAgainMs = 10_000;
/** Few, so that an address is soon another pod's. */
const fewAddresses = 12;
/** Between two attempts of what can't be done yet. */
const retryMs = 2_000;

const scheduled = { type: 'PodScheduled', status: 'True', lastTransitionTime: null };
const noRoom = {
  type: 'PodScheduled',
  status: 'False',
  reason: 'Unschedulable',
  message: '0/1 nodes are available',
  lastTransitionTime: null,
};

const gated = {
  type: 'PodScheduled',
  status: 'False',
  reason: 'SchedulingGated',
  message: 'Scheduling is blocked due to non-empty scheduling gates',
  lastTransitionTime: null,
};

/** Times of a wait, in milliseconds of the simulation. */
export interface Wait {
  readonly since: number;
  /** Absent: the wait is not over. */
  readonly until?: number;
  /** Whether the wait is for a node that an autoscaler adds, and not at a gate. */
  readonly isForNode?: boolean;
}

const isBroken = ({ noImage, restarts }: PodRun): boolean => noImage || restarts > 1;

/** Scheduler, kubelet and volume provisioner of a cluster of agent pods, without a network. */
export class SimulatedNode {
  readonly #options: NodeOptions;
  readonly #runs = new Map<string, PodRun>();
  /** By the UID of a sandbox: when its last broken pod went. */
  readonly #brokenUntil = new Map<string, number>();
  readonly #volumes = new Map<string, Volume>();
  /** By the UID of a sandbox: the last wait of its pod at a scheduling gate. */
  readonly #waits = new Map<string, Wait>();
  #containers = 0;
  #addresses = 0;
  #lost = false;
  #replacements = 0;
  /** A run was interrupted. `disrupted`: with its pod, which was taken away, or with its node. */
  onInterrupted: (
    conversation: StoredConversation,
    sandboxUid: string,
    how: RunInterruption,
    disrupted: boolean,
  ) => void = () => undefined;
  /** A conversation was stored with its first message. */
  onFirstMessage: (process: AgentProcess, id: string) => void = () => undefined;
  /** An agent has stored a message that came later. */
  onMessage: (text: string) => void = () => undefined;
  /** An agent asks, or executes the call of its question. */
  onAsked: (question: AskedQuestion) => void = () => undefined;
  onExecuted: (question: AskedQuestion) => void = () => undefined;
  /** An agent reports a status of its own accord. */
  onStatus: (process: AgentProcess, conversation: StoredConversation) => void = () => undefined;
  /** Every agent there ever was, by the id of its container. */
  readonly processes = new Map<string, AgentProcess>();

  constructor(options: NodeOptions) {
    this.#options = options;
    options.cluster.onChange((change) => this.#observe(change));
  }

  get volumes(): Iterable<Volume> {
    return this.#volumes.values();
  }

  volumeOf(claimUid: string): Volume | undefined {
    return this.#volumes.get(claimUid);
  }

  /** The conversations on the volume of a sandbox whose agent runs, by their id. */
  conversationsOf(sandboxUid: string): ReadonlyMap<string, StoredConversation> {
    return (
      this.running.find((process) => process.sandboxUid === sandboxUid)?.volume.conversations ??
      new Map<string, StoredConversation>()
    );
  }

  get running(): readonly AgentProcess[] {
    return [...this.#runs.values()].flatMap(({ process }) =>
      process?.alive === true ? [process] : [],
    );
  }

  /** The agent that listens at an address of the form `http://ip:port`. */
  at(baseUrl: string): AgentProcess | undefined {
    const host = new URL(baseUrl).hostname;
    const run = [...this.#runs.values()].find(
      ({ address, process }) => address === host && process?.alive === true,
    );
    return run?.process;
  }

  /** The agent's container ends, and the kubelet starts it again. */
  crash(process: AgentProcess): void {
    const run = this.#runs.get(process.podUid);
    if (run?.process !== process || run.stopping) return;
    this.#options.trace.note(`node: container ${process.id} ends`);
    process.kill();
    run.process = undefined;
    const ended = { exitCode: 137, reason: 'Error', finishedAt: null };
    void this.#report(run, 'Running', [
      { ...this.#containerOf(run), ready: false, state: { terminated: ended } },
    ]);
    this.#after(run.random.between(100, 10_000), run, () => {
      run.restarts++;
      this.#startContainer(run);
    });
  }

  /** Evicts the pod as under pressure: the pod has failed, and its processes are gone. */
  evict(process: AgentProcess): void {
    const run = this.#runs.get(process.podUid);
    if (run?.process !== process) return;
    this.#options.trace.note(`node: evicts ${run.name}`);
    process.kill();
    run.process = undefined;
    void this.#report(run, 'Failed', [], { reason: 'Evicted' });
  }

  /** The machine is shut down and comes back at once: its pods have failed, with the reason. */
  shutDown(): void {
    this.#options.trace.note('node: shuts down');
    for (const run of this.#runs.values()) {
      if (run.process === undefined) continue;
      run.disrupted = true;
      run.process.kill();
      run.process = undefined;
      const target = {
        type: 'DisruptionTarget',
        status: 'True',
        reason: 'TerminationByKubelet',
        message: '',
        lastTransitionTime: null,
      };
      const message = 'Pod was terminated in response to imminent node shutdown.';
      void this.#report(run, 'Failed', [], { reason: 'Terminated', message, conditions: [target] });
    }
  }

  /** Evicts each pod by the API: a condition has the cause, and the pod its grace period. */
  drain(): void {
    const { cluster, trace } = this.#options;
    trace.note('node: is drained');
    for (const run of [...this.#runs.values()]) {
      const target = {
        type: 'DisruptionTarget',
        status: 'True',
        reason: 'EvictionByEvictionAPI',
        message: 'Eviction API: evicting',
        lastTransitionTime: null,
      };
      void this.#patchStatus(run, { conditions: [target] }).then(() =>
        cluster.call('drain', 'DELETE', `/api/v1/namespaces/default/pods/${run.name}`, {
          preconditions: { uid: run.uid },
        }),
      );
    }
  }

  /**
   * Whether a pod of this sandbox can't run for a lasting cause, or could not when it went, at most
   * `withinMs` ago: it has no image, or its container ends again and again.
   */
  hasBeenBroken(sandboxUid: string, withinMs: number): boolean {
    const goneAt = this.#brokenUntil.get(sandboxUid) ?? -Infinity;
    return (
      goneAt >= this.#options.scheduler.monotonic() - withinMs ||
      [...this.#runs.values()].some((run) => run.sandboxUid === sandboxUid && isBroken(run))
    );
  }

  #drop(run: PodRun): void {
    this.#endWait(run);
    if (!this.#runs.delete(run.uid) || !isBroken(run)) return;
    this.#brokenUntil.set(run.sandboxUid, this.#options.scheduler.monotonic());
  }

  /** Whether pods of a lost machine still have to be removed from the cluster. */
  get losing(): boolean {
    return this.#replacements > 0;
  }

  /** The machine is gone with all that ran on it; its pods leave the cluster later. */
  lose(goneAfterMs: number): void {
    const { scheduler, trace, cluster } = this.#options;
    trace.note('node: lost');
    this.#lost = true;
    this.#replacements++;
    const runs = [...this.#runs.values()];
    for (const run of runs) {
      run.disrupted = true;
      if (run.process !== undefined) this.#options.conditions?.lost(run.process.volume.claimUid);
      run.process?.kill();
    }
    scheduler.after(goneAfterMs, () => {
      trace.note('node: replaced by another');
      this.#lost = false;
      this.#replacements--;
      for (const run of runs) this.#drop(run);
      for (const pod of cluster.pods) {
        if (runs.some(({ uid }) => uid === pod.metadata.uid))
          void this.#remove(pod.metadata.name, pod.metadata.uid);
        else this.#take(pod);
      }
    });
  }

  #observe({ plural, object, type, before }: Change): void {
    if (plural === persistentVolumeClaims.plural) {
      if (type === 'ADDED') this.#provide(object);
      if (type === 'DELETED') this.#volumes.delete(object.metadata.uid);
    }
    if (plural !== pods.plural) return;
    const pod = object as Pod;
    const run = this.#runs.get(pod.metadata.uid);
    // A pod that is taken away waits for nothing, whatever becomes of its node.
    if (run !== undefined && (type === 'DELETED' || pod.metadata.deletionTimestamp !== undefined))
      this.#endWait(run);
    if (this.#lost) return;
    if (type === 'ADDED') this.#take(pod);
    else if (type === 'DELETED') this.#forget(run);
    else if (
      pod.metadata.deletionTimestamp !== undefined &&
      before?.metadata.deletionTimestamp === undefined
    )
      this.#stop(pod, run);
  }

  #provide({ metadata }: KubeObject): void {
    this.#volumes.set(metadata.uid, new Volume(metadata.uid));
    const random = this.#options.random.nextOf(`claim ${metadata.name}`);
    const path = `/api/v1/namespaces/default/persistentvolumeclaims/${metadata.name}/status`;
    this.#options.scheduler.after(random.between(5, 500), () => {
      void this.#options.cluster.call(actor, 'PATCH', path, {
        metadata: { uid: metadata.uid },
        status: { phase: 'Bound' },
      });
    });
  }

  /** The next address that no pod has. */
  #freeAddress(): string {
    const taken = new Set([...this.#runs.values()].map(({ address }) => address));
    const { addresses = fewAddresses } = this.#options;
    for (let tries = 0; tries < addresses; tries++) {
      this.#addresses = (this.#addresses + 1) % addresses;
      const { network = '10.0.0' } = this.#options;
      const address = `${network}.${this.#addresses + 1}`;
      if (!taken.has(address)) return address;
    }
    throw new Error(`more than ${addresses} pods at once`);
  }

  /** Schedules a pod that is new here. */
  #take(pod: Pod): void {
    const { name, uid } = pod.metadata;
    if (this.#runs.has(uid)) return;
    const { trouble } = this.#options;
    const random = this.#options.random.nextOf(`pod ${name}`);
    const sandboxUid =
      pod.metadata.ownerReferences?.find(({ kind }) => kind === sandboxes.kind)?.uid ?? '';
    const run: PodRun = {
      sandboxUid,
      name,
      uid,
      address: this.#freeAddress(),
      random,
      process: undefined,
      restarts: 0,
      stopping: false,
      disrupted: false,
      noImage: false,
    };
    this.#runs.set(uid, run);
    if (pod.metadata.deletionTimestamp !== undefined) {
      this.#stop(pod, run);
      return;
    }
    const { unschedulable } = trouble();
    const gate = this.#options.gates?.nextOf(name);
    if (gate?.chance(0.6) === true && this.#options.conditions?.gated === true) {
      const { scheduler } = this.#options;
      const since = scheduler.monotonic();
      this.#waits.set(sandboxUid, { since });
      void this.#patchStatus(run, { conditions: [gated] });
      this.#awaitAdmission(run, since + gate.between(5_000, 120_000));
    } else if (gate?.chance(0.4) === true && this.#options.conditions?.gated === true) {
      const { scheduler } = this.#options;
      const since = scheduler.monotonic();
      this.#waits.set(sandboxUid, { since, isForNode: true });
      void this.#patchStatus(run, { conditions: [noRoom] });
      this.#after(gate.between(1_000, 10_000), run, () => void this.#announceNode(run));
      this.#awaitAdmission(run, since + gate.between(5_000, 400_000));
    } else if (this.#options.conditions?.full === true) {
      void this.#patchStatus(run, { conditions: [noRoom] });
      this.#awaitRoom(run);
    } else if (random.chance(unschedulable)) {
      void this.#patchStatus(run, { conditions: [noRoom] });
      this.#after(random.between(5_000, 60_000), run, () => this.#bind(run));
    } else this.#after(random.between(5, 500), run, () => this.#bind(run));
  }

  /** The wait of the last pod of this sandbox at a scheduling gate, if there was one. */
  waitOf(sandboxUid: string): Wait | undefined {
    return this.#waits.get(sandboxUid);
  }

  /** The Event of the cluster autoscaler. */
  #announceNode({ name, uid }: PodRun): Promise<unknown> {
    const at = new Date(this.#options.scheduler.now()).toISOString();
    return this.#options.cluster.call(actor, 'POST', '/api/v1/namespaces/default/events', {
      apiVersion: 'v1',
      kind: 'Event',
      metadata: { name: `${name}.${uid}` },
      involvedObject: { apiVersion: 'v1', kind: 'Pod', namespace: 'default', name, uid },
      reason: 'TriggeredScaleUp',
      message: 'pod triggered scale-up: [{workers 1->2 (max: 9)}]',
      type: 'Normal',
      source: { component: 'cluster-autoscaler' },
      count: 1,
      firstTimestamp: at,
      lastTimestamp: at,
    });
  }

  #endWait({ sandboxUid }: PodRun): void {
    const wait = this.#waits.get(sandboxUid);
    if (wait === undefined || wait.until !== undefined) return;
    this.#waits.set(sandboxUid, { ...wait, until: this.#options.scheduler.monotonic() });
  }

  #awaitAdmission(run: PodRun, at: number): void {
    this.#after(retryMs, run, () => {
      const { conditions, scheduler } = this.#options;
      if (conditions?.gated === true && scheduler.monotonic() < at) {
        this.#awaitAdmission(run, at);
        return;
      }
      this.#endWait(run);
      void this.#patchStatus(run, { conditions: [] });
      this.#after(run.random.between(5, 500), run, () => this.#bind(run));
    });
  }

  #awaitRoom(run: PodRun): void {
    this.#after(retryMs, run, () => {
      if (this.#options.conditions?.full === true) this.#awaitRoom(run);
      else this.#bind(run);
    });
  }

  #awaitRegistry(run: PodRun): void {
    const message = 'Back-off pulling image: dial tcp 10.96.0.9:443: i/o timeout';
    void this.#report(run, 'Pending', [
      {
        ...this.#containerOf(run),
        ready: false,
        state: { waiting: { reason: 'ImagePullBackOff', message } },
      },
    ]);
    const again = () => {
      if (this.#options.conditions?.registryDown === true) this.#after(retryMs, run, again);
      else this.#startContainer(run);
    };
    this.#after(retryMs, run, again);
  }

  /** Whether the volume is still attached to a node that is gone. */
  #awaitVolume(run: PodRun, claimUid: string): boolean {
    const { conditions } = this.#options;
    const waitMs = conditions?.detachingMs(claimUid) ?? 0;
    if (waitMs === 0) return false;
    const unready = {
      type: 'PodReadyToStartContainers',
      status: 'False',
      lastTransitionTime: null,
    };
    void this.#report(run, 'Pending', [this.#waiting(run, 'ContainerCreating')], {
      conditions: [scheduled, unready],
    });
    this.#after(waitMs, run, () => this.#startContainer(run));
    return true;
  }

  #bind(run: PodRun): void {
    const { cluster, trouble } = this.#options;
    const { random } = run;
    if (!this.#current(run) || this.#lost) return;
    void cluster.call(actor, 'POST', `/api/v1/namespaces/default/pods/${run.name}/binding`, {
      metadata: { name: run.name, uid: run.uid },
      target: { kind: 'Node', name: 'node' },
    });
    const { image, crash } = trouble();
    if (this.#options.conditions?.registryDown === true) {
      this.#awaitRegistry(run);
      return;
    }
    if (random.chance(image)) {
      const fatal = random.chance(0.5);
      void this.#report(run, 'Pending', [this.#waiting(run, 'ErrImagePull')]);
      this.#after(random.between(500, 10_000), run, () => {
        run.noImage = fatal;
        if (!fatal) {
          this.#startContainer(run);
          return;
        }
        void this.#report(run, 'Pending', [this.#waiting(run, 'ImagePullBackOff')]);
        this.#pullAgain(run);
      });
      return;
    }
    this.#after(
      random.chance(0.2) ? random.between(1_000, 20_000) : random.between(20, 1_000),
      run,
      () => {
        const process = this.#startContainer(run);
        if (process !== undefined && random.chance(crash)) {
          this.#after(random.between(0, 30_000), run, () => {
            if (trouble().crash > 0) this.crash(process);
          });
        }
      },
    );
  }

  /** Pulls the image once the registry is available. */
  #pullAgain(run: PodRun): void {
    this.#after(pullAgainMs, run, () => {
      if (this.#options.trouble().image > 0) this.#pullAgain(run);
      else this.#startContainer(run);
    });
  }

  #startContainer(run: PodRun): AgentProcess | undefined {
    const { cluster, scheduler, trace } = this.#options;
    const { random } = run;
    const pod = cluster.pods.find(({ metadata }) => metadata.uid === run.uid);
    if (pod === undefined || run.stopping || this.#lost) return undefined;
    const claimName = pod.spec?.volumes?.find(
      ({ persistentVolumeClaim }) => persistentVolumeClaim !== undefined,
    )?.persistentVolumeClaim?.claimName;
    const claim = cluster.claims.find(({ metadata }) => metadata.name === claimName);
    const volume = claim === undefined ? undefined : this.#volumes.get(claim.metadata.uid);
    const owner = pod.metadata.ownerReferences?.find(({ kind }) => kind === sandboxes.kind);
    if (volume === undefined || owner === undefined) {
      this.#after(1_000, run, () => this.#startContainer(run));
      return undefined;
    }
    if (this.#awaitVolume(run, volume.claimUid)) return undefined;
    const bootstrapKey =
      pod.spec?.containers[0]?.env?.find(({ name }) => name === 'OH_SECRET_KEY')?.value ?? '';
    const ends = this.#options.ends?.nextOf(run.name);
    const id = `sim://${this.#containers++}`;
    const process: AgentProcess = new AgentProcess(
      {
        id,
        podUid: run.uid,
        sandboxUid: owner.uid,
        bootstrapKey,
        volume,
        scheduler,
        podName: run.name,
        random: random.nextOf('agent'),
        steps: this.#options.steps?.nextOf(run.name),
        ends,
        endChances: this.#options.endChances,
        stalls: this.#options.stalls?.nextOf(run.name),
        // The container runs out of memory, or of scratch space.
        onDeath: () => (ends?.chance(0.5) === true ? this.evict(process) : this.crash(process)),
        onMessage: (text) => this.onMessage(text),
        onAsked: (question) => this.onAsked(question),
        onExecuted: (question) => this.onExecuted(question),
        onInterrupted: (conversation, how) =>
          this.onInterrupted(conversation, owner.uid, how, run.disrupted),
        onFirstMessage: (conversationId) => this.onFirstMessage(process, conversationId),
        onStatus: (conversation) => this.onStatus(process, conversation),
      },
      random.between(5, 3_000),
    );
    run.process = process;
    this.processes.set(id, process);
    trace.note(`node: container ${id} of ${run.name} starts at ${run.address}`);
    void this.#report(run, 'Running', [
      {
        ...this.#containerOf(run),
        containerID: id,
        ready: true,
        started: true,
        state: { running: {} },
      },
    ]);
    return process;
  }

  #stop(pod: Pod, run: PodRun | undefined): void {
    const { trouble } = this.#options;
    if (run === undefined || run.stopping) return;
    const { random } = run;
    run.stopping = true;
    const stopMs = random.chance(trouble().slowStop)
      ? random.between(1_000, graceMs)
      : random.between(10, 300);
    this.#options.scheduler.after(stopMs, () => {
      if (this.#lost || !this.#current(run)) return;
      run.disrupted = true;
      run.process?.kill();
      run.process = undefined;
      this.#options.scheduler.after(random.between(1, 200), () => {
        if (!this.#lost && this.#current(run)) void this.#remove(pod.metadata.name, run.uid);
      });
    });
  }

  #forget(run: PodRun | undefined): void {
    if (run === undefined) return;
    run.disrupted = true;
    run.process?.kill();
    this.#drop(run);
  }

  async #remove(name: string, uid: string): Promise<void> {
    const body = { gracePeriodSeconds: 0, preconditions: { uid } };
    await this.#options.cluster.call(
      actor,
      'DELETE',
      `/api/v1/namespaces/default/pods/${name}`,
      body,
    );
  }

  #current(run: PodRun): boolean {
    return this.#runs.get(run.uid) === run;
  }

  #after(delayMs: number, run: PodRun, work: () => void): void {
    this.#options.scheduler.after(delayMs, () => {
      if (!this.#lost && this.#current(run) && !run.stopping) work();
    });
  }

  #containerOf(run: PodRun) {
    return { name: 'agent', image: 'agent:1', imageID: '', restartCount: run.restarts };
  }

  #waiting(run: PodRun, reason: string) {
    return { ...this.#containerOf(run), ready: false, state: { waiting: { reason } } };
  }

  #report(
    run: PodRun,
    phase: string,
    containerStatuses: readonly object[],
    more: object = {},
  ): Promise<unknown> {
    return this.#patchStatus(run, { phase, podIP: run.address, containerStatuses, ...more });
  }

  #patchStatus(run: PodRun, status: object): Promise<unknown> {
    const path = `/api/v1/namespaces/default/pods/${run.name}/status`;
    return this.#options.cluster.call(actor, 'PATCH', path, { metadata: { uid: run.uid }, status });
  }
}
