/**
 * Rules that choose which waiting run gets a free slot. All of them are told of a run when it begins to wait and when it
 * ends, and are asked for the next one. None of them knows how long a run will take.
 */
import TinyQueue from 'tinyqueue'

export interface Run {
  /** The order of acceptance. */
  no: number
  tenant: string
  /** Tenants of one group are one row of the table. */
  group: string
  weight: number
  priority: number
  at: number
  takes: number
}

export interface Policy {
  name: string
  wait(run: Run): void
  /** Takes the next run; undefined if none may start. */
  next(): Run | undefined
  end(run: Run): void
}

/** In the order of acceptance: the work queue as it is. */
export function firstComeFirstServed(): Policy {
  return queueBy('first come, first served', () => 0)
}

/** The highest priority first, in it the order of acceptance. */
export function strictPriority(): Policy {
  return queueBy('strict priority', run => -run.priority)
}

function queueBy(name: string, rank: (run: Run) => number): Policy {
  const waiting = new TinyQueue<{ run: Run; rank: number }>([], (a, b) => a.rank - b.rank || a.run.no - b.run.no)
  return {
    name,
    wait: run => waiting.push({ run, rank: rank(run) }),
    next: () => waiting.pop()?.run,
    end: () => undefined,
  }
}

/**
 * Start-time fair queueing (Goyal, Vin, Cheng 1996), with a cost of 1 for each run: a run gets a tag when it begins to wait, the
 * end of its tenant's last one or the tag that was served last. The smallest tag is next.
 */
export function fairStarts(): Policy {
  const waiting = new TinyQueue<{ run: Run; tag: number }>([], (a, b) => a.tag - b.tag || a.run.no - b.run.no)
  const ends = new Map<string, number>()
  let served = 0
  return {
    name: 'fair starts',
    wait(run) {
      const tag = Math.max(served, ends.get(run.tenant) ?? 0)
      ends.set(run.tenant, tag + 1 / run.weight)
      waiting.push({ run, tag })
    },
    next() {
      const first = waiting.pop()
      if (first) served = first.tag
      return first?.run
    },
    end: () => undefined,
  }
}

/**
 * The tenant that has the fewest running runs for its weight is next; among equals the one that waits longest since its last
 * start. A tenant whose runs take long holds no more slots than another one.
 */
export function fairSlots(): Policy {
  interface Tenant {
    runs: Run[]
    head: number
    running: number
    weight: number
    served: number
    stamp: number
  }
  const tenants = new Map<string, Tenant>()
  // An entry whose stamp is not its tenant's is out of date, and is skipped.
  const order = new TinyQueue<{ tenant: Tenant; share: number; served: number; stamp: number }>(
    [],
    (a, b) => a.share - b.share || a.served - b.served,
  )
  let starts = 0
  const place = (tenant: Tenant) => {
    tenant.stamp++
    if (tenant.head === tenant.runs.length) return
    const { running, weight, served, stamp } = tenant
    order.push({ tenant, share: running / weight, served, stamp })
  }
  return {
    name: 'fair slots',
    wait(run) {
      let tenant = tenants.get(run.tenant)
      if (!tenant) {
        tenant = { runs: [], head: 0, running: 0, weight: run.weight, served: 0, stamp: 0 }
        tenants.set(run.tenant, tenant)
      }
      tenant.runs.push(run)
      if (tenant.runs.length - tenant.head === 1) place(tenant)
    },
    next() {
      for (let first = order.pop(); first; first = order.pop()) {
        const { tenant } = first
        if (first.stamp !== tenant.stamp) continue
        const run = tenant.runs[tenant.head++]!
        tenant.running++
        tenant.served = ++starts
        place(tenant)
        return run
      }
      return undefined
    },
    end(run) {
      const tenant = tenants.get(run.tenant)!
      tenant.running--
      place(tenant)
    },
  }
}

/**
 * A tenant has at most `most` runs in the work queue or in slots, as a thread has one; the end of one puts its next one at the
 * end of the queue. The queue itself stays first come, first served.
 */
export function boundedTokens(most: number): Policy {
  interface Tenant {
    out: number
    held: Run[]
    head: number
  }
  const queue: Run[] = []
  let head = 0
  const tenants = new Map<string, Tenant>()
  const tenantOf = (run: Run) => {
    let tenant = tenants.get(run.tenant)
    if (!tenant) {
      tenant = { out: 0, held: [], head: 0 }
      tenants.set(run.tenant, tenant)
    }
    return tenant
  }
  return {
    name: `${most} tokens of a tenant`,
    wait(run) {
      const tenant = tenantOf(run)
      if (tenant.out < most) {
        tenant.out++
        queue.push(run)
      } else tenant.held.push(run)
    },
    next: () => (head < queue.length ? queue[head++] : undefined),
    end(run) {
      const tenant = tenantOf(run)
      const following = tenant.held[tenant.head]
      if (following) {
        tenant.head++
        queue.push(following)
      } else tenant.out--
    },
  }
}
