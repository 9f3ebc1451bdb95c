"""placeholder"""
from __future__ import annotations
from typing import Final, NamedTuple
import numpy as np
from scipy.special import betaincinv, ndtr
from ragtide_aggregator.statistics import duels as D
from ragtide_aggregator.statistics.duels import Duels
from ragtide_aggregator.statistics.racing import RESERVE, ruled_out

COUNT: Final = 16
ITEMS: Final = 400
SCEN = {
 'spread': np.linspace(.3,.7,16),
 'winner': np.array([.7]+[.5]*15),
 'four': np.concatenate([[.7,.69,.68,.67],np.linspace(.45,.6,12)]),
 'four60': np.concatenate([[.7,.69,.68,.67],np.full(12,.6)]),
 'all': np.linspace(.49,.51,16),
}
def draw(rng, means, kind, runs, rho):
    z = np.sqrt(rho)*rng.standard_normal((runs,ITEMS,1)) + np.sqrt(1-rho)*rng.standard_normal((runs,ITEMS,len(means)))
    u = ndtr(z)
    if kind=='binary': return (u < means)*1.0
    # table of quantiles
    g=np.linspace(0,1,2001)
    return np.stack([np.interp(u[...,k], g, betaincinv(10*m,10*(1-m),g)) for k,m in enumerate(means)],-1)

def race(x, margin=.02, conf=.95, look=5, alpha=None, guard=True, cls=Duels):
    R,N,K=x.shape
    duels=cls((R,K),population=N,margin=margin)
    a=(1-conf)*(1-RESERVE)/(K-1) if alpha is None else alpha
    running=np.ones((R,K),bool); out=np.zeros((R,K),bool); ruled=np.zeros((R,K,K),bool); ran=np.zeros((R,K))
    none=np.zeros(K,bool)
    for t in range(N):
        ran+=running
        duels.play(t,x[:,t],running)
        if (t+1)%look and t+1<N: continue
        reached=duels.evidence>=1/a
        new=(reached&running[:,:,None]&running[:,None,:]).any((1,2))
        ruled|=reached
        for r in np.flatnonzero(new):
            mean=duels.mean[r]
            lost=ruled_out(reached[r], ruled[r] if guard else np.ones((K,K),bool), mean=mean, seen=duels.seen[r], running=running[r], out=out[r] if guard else none, protected=none)
            for p,_ in lost: running[r,p]=False; out[r,p]=True
    return ran,running
def report(x,ran,running,margin=.02):
    full=x.mean(1); R,N,K=x.shape
    best=full.argmax(1); bs=~running[np.arange(R),best]
    kept=np.where(running,full,-1).max(1); reg=full.max(1)-kept
    return f"work {ran.sum((1,2) if ran.ndim==3 else 1).mean()/N/K:.3f} beststopped {bs.mean():.3f} worse>margin {(reg>margin+1e-9).mean():.4f} regret {reg.mean():.4f} left {running.sum(1).mean():.2f}"
