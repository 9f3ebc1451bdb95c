"""Ad hoc: pictures of alerts and criteria in dark/light, wide/narrow, en/ru."""
import asyncio, sys, tempfile, json
from datetime import timedelta
from pathlib import Path
from playwright.async_api import async_playwright, expect
from ragtide_runtime.redis.client import connect_async
from ragtide_runtime.redis.server.embedded import EmbeddedRedis
from ragtide_runtime.settings.model import Settings
from ragtide_web.server import page_beside
from tests.monitoring.programs import program
from tests.support.owners import owners
from ragtide_aggregator.checkpoint.options import state_options
from ragtide_aggregator.state.state import AggregatorState
from ragtide_schemas import AlertRule, utc_now
from tests.aggregator import test_alert_steps as steps, test_distribution_rules as dist, test_sentinel_rules as sent
from tests.web.page.test_item import keep, specimen
from tests.web.page.test_pipeline import SETTINGS
from ragtide_runtime.redis.keys import DATA_FIELD, Streams
import numpy as np
OUT=Path(sys.argv[1]); ONLY=sys.argv[2] if len(sys.argv)>2 else ""
RULES=(steps.RULE, dist.rule(segment=None), sent.RULE, AlertRule(name="topics",kind="distribution",covariate="segment:topic",learn_n=500,run_length=1000), AlertRule(name="slow", kind="threshold", metric="answer.latency_s", quantile=0.95, target=2.0, run_length=1000))
async def seed(redis, settings):
    (owner,)=owners(redis, settings)
    owner.state=AggregatorState(state_options(settings))
    now=utc_now()
    def at(events):
        events=list(events); n=len(events)
        return [e.model_copy(update={"occurred_at": now-timedelta(hours=10)*(n-i)/n, "labeled_at": now-timedelta(hours=10)*(n-i)/n}) for i,e in enumerate(events)]
    A=at(steps.traffic([(1500,{}),(3400,steps.BM25_WORSE)]))
    B=[e.model_copy(update={"pipeline":"docs","interaction_id":"d"+e.interaction_id}) for e in at([*dist.of_lengths(dist.lengths(800)),*dist.of_lengths(dist.lengths(200,3.0,seed=1),first=800)])]
    C=at(sent.answers((sent.BEFORE,False),(80,True)))
    rng=np.random.default_rng(1)
    D=[e.model_copy(update={"pipeline":"help","interaction_id":"t"+e.interaction_id}) for e in at([*dist.of_topics(rng.choice(["billing","shipping","returns"],800,p=[.5,.3,.2])),*dist.of_topics(rng.choice(["billing","a-topic-with-a-very-long-name-that-nobody-would-write-but-somebody-will","returns"],300,p=[.2,.6,.2]),first=800)])]
    from tests.support.metric_events import event
    F=at([event(i,{"trace.adherence":.5,"answer.latency_s":float(rng.exponential(.5 if i<800 else 2))},pipeline="slow",interaction_id=f"s{i}") for i in range(1600)])
    E=at(sent.answers((sent.BEFORE,False),(80,True),(300,False)))
    await owner.commit(*A,*B,*C,*D,*F)
    for e in (): pass
    async def rec():
        return
async def main():
    with tempfile.TemporaryDirectory() as name, EmbeddedRedis.open(Path(name)) as server:
        settings=SETTINGS.model_copy(update={"redis_url":server.url,"data_dir":Path(name),"alerts":RULES})
        settings=Settings.model_validate({**settings.model_dump(), "redis_url":server.url,"data_dir":str(name),"alerts":[r.model_dump(exclude_none=True) for r in RULES]}) if False else settings
        async with connect_async(server.url) as redis:
            # collect alerts
            (owner,)=owners(redis, settings)
            import tests.support.owners as o
            orig=o.AggregatorState.take_changes
            found=[]
            def take(self):
                c=orig(self); found.extend(c.alerts); return c
            o.AggregatorState.take_changes=take
            await seed(redis, settings)
            (res,)=[a for a in sent.alerts_of((sent.BEFORE,False),(80,True),(300,False)) if a.status=="resolved"]
            found.append(res.model_copy(update={"alert_id":"resolved-sentinel"}))
            for a in found:
                print(a.alert_id,a.kind,a.status,a.message[:100])
                await redis.xadd(Streams("ragtide",0).alerts,{DATA_FIELD:a.encode()})
            ids={a.alert_id:a for a in found}
            await keep(redis,*[specimen(i,"shop") for i in next(a for a in found if a.kind=="drift").worst_interaction_ids])
            if hasattr(sys.modules[__name__],"more"): pass
        async with page_beside(settings, server.url) as address, async_playwright() as pw:
            browser=await pw.chromium.launch(executable_path=program("chromium"),args=["--no-sandbox"])
            paths={f"alert-{a.kind}-{a.pipeline}-{a.status}":f"/a/{i}" for i,a in ids.items()}
            paths["alerts"]="/a"; paths["fleet"]="/"; paths["pipeline-sent"]="/p/ragtide-sentinels"; paths["pipeline-slow"]="/p/slow"
            for n,p in paths.items():
                if ONLY not in n: continue
                for scheme,locale,width in (("light","en-US",1400),("dark","ru-RU",1400),("dark","en-US",390),("light","ru-RU",390)):
                    ctx=await browser.new_context(viewport={"width":width,"height":900},color_scheme=scheme,locale=locale,timezone_id="UTC",base_url=address.rstrip("/"))
                    page=await ctx.new_page(); r=await page.goto(p)
                    await page.evaluate("() => document.fonts.ready")
                    if await page.locator("#statistics > summary").count(): await page.locator("#statistics > summary").click()
                    wide=await page.evaluate("() => document.documentElement.scrollWidth")
                    print(n,scheme,locale,width,r.status,"WIDE" if wide>width else "")
                    await page.screenshot(path=str(OUT/f"{n}-{locale[:2]}-{scheme}-{width}.png"),full_page=True)
                    await ctx.close()
            await browser.close()
OUT.mkdir(exist_ok=True,parents=True)
asyncio.run(main())
