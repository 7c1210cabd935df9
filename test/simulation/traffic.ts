export interface TrafficRequest {
  /** The process, in its present run. */
  readonly actor: string;
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly body: string | undefined;
}

export interface TrafficListener {
  sent?(request: TrafficRequest): void;
  answered?(request: TrafficRequest, status: number, body: string): void;
}

/** Requests of processes to the API server and the answers, for checks. */
export class Traffic {
  readonly #listeners: TrafficListener[] = [];
  /** Status in place of executing the request; undefined: the API server executes it. */
  refusal: (request: TrafficRequest) => number | undefined = () => undefined;
  /** Whether a resource quota has no room for another pod. */
  isQuotaFull = false;

  add(listener: TrafficListener): void {
    this.#listeners.push(listener);
  }

  sent(request: TrafficRequest): void {
    for (const listener of this.#listeners) listener.sent?.(request);
  }

  answered(request: TrafficRequest, status: number, body: string): void {
    for (const listener of this.#listeners) listener.answered?.(request, status, body);
  }
}
