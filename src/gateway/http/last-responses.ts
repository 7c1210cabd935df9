import type { ServerResponse } from 'node:http';

/**
 * Tells clients with the last answer on a connection that it is the last, once a shutdown has begun: one that sends another request
 * just when its connection is closed could not know whether that was carried out. Answers that began before can't say it any more.
 */
export class LastResponses {
  readonly #underWay = new Set<ServerResponse>();
  #begun = false;

  /** To be called before anything is sent. */
  add(response: ServerResponse): void {
    if (this.#begun) {
      mark(response);
      return;
    }
    this.#underWay.add(response);
    response.once('close', () => this.#underWay.delete(response));
  }

  /** From now on every answer is the last one of its connection, also to requests that are here already. */
  begin(): void {
    this.#begun = true;
    for (const response of this.#underWay) if (!response.headersSent) mark(response);
  }
}

const mark = (response: ServerResponse): void => {
  response.setHeader('connection', 'close');
};
