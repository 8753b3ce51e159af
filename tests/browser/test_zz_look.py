from notebook_page import Notebook
from test_approval_panel import opened
def theme(page, name):
    page.evaluate("name => window.jupyterapp.commands.execute('apputils:change-theme', {theme: name})", name)
    page.wait_for_timeout(1500)
CELLS=['''from memlab.classroom import *
claim("both say the same", True, {"here": 70, "there": "70", "costs": "$5 and $6 $\\\\alpha$", "x": "<img src=x onerror=alert(1)> a\\u202eb"})''',
'''refute("numbers survive a restart", False, {"program 1": 53, "program 2": "5\\n8"})''',
'''def f(path): ...
check("02a", f)''','''def f(path): return 3
check("02a", f)''', "check('02a', f)",
'''source(claim)''','''claim("x is so", False)''', '''run_python("1/0")''']
def test_claims(lab, page, shots):
    n=Notebook(lab,page,lab.write("claims.ipynb",*CELLS)); n.run_all(); page.wait_for_timeout(4000)
    n.area.press("Home") if 0 else None
    page.set_viewport_size({"width":1000,"height":1700}); page.wait_for_timeout(500)
    page.screenshot(path=str(shots/"claims.png"))
    theme(page,"JupyterLab Dark")
    page.screenshot(path=str(shots/"claims_dark.png"))
def test_look(opened, shots):
    p=opened.page
    opened.cards.nth(0).get_by_role("button",name="Approve",exact=True).click()
    p.wait_for_timeout(800)
    print(opened.focused("outerHTML.slice(0,200)"))
    opened.cards.nth(1).get_by_role("button",name="Reject",exact=True).click()
    p.wait_for_timeout(800)
    print(opened.focused("outerHTML.slice(0,200)"))
    opened.cards.nth(2).get_by_role("button",name="Edit",exact=True).click()
    p.wait_for_timeout(800)
    p.set_viewport_size({"width":1200,"height":1400})
    theme(p,"JupyterLab Dark")
    p.screenshot(path=str(shots/"dark.png"))
    p.set_viewport_size({"width":520,"height":1400}); p.wait_for_timeout(800)
    p.screenshot(path=str(shots/"narrow.png"))
    print(p.evaluate("window.__xss"))
def test_tables(lab, page, shots):
    n=Notebook(lab,page,lab.write("tables.ipynb",*TABLES)); n.run_all(); page.wait_for_timeout(5000)
    page.screenshot(path=str(shots/"tables.png"))
TABLES=['''from memlab import *
store=MemoryStore.open("m", create=True); alice=store.for_user("alice","s1")
_ = alice.put("note","price","$5 and $6 $\\\\alpha$ <img src=x onerror=\\"window.__xss=1\\"> \\u202e")
views.records(alice)''','''views.hits(alice.recall("price"))''','''agent=MemoryAgent(alice, ScriptedModel([say("ok")])); answer = await agent.ask("price?"); views.plot_requests(answer)''']
